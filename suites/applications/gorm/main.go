// Requests of a web application over GORM with its defaults, each one in a transaction (suites/applications.sh).
// Arguments: address, number of requests. Answers to standard output, median and 99th percentile to standard error.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

type Customer struct {
	ID     int `gorm:"primaryKey;autoIncrement:false"`
	Name   string
	Visits int
	Orders []Order
}

func (Customer) TableName() string { return "customer" }

type Order struct {
	ID         int `gorm:"primaryKey;autoIncrement:false"`
	CustomerID int
	Amount     int
}

func (Order) TableName() string { return "purchase" }

func request(db *gorm.DB, number int) (answer string, err error) {
	err = db.Transaction(func(tx *gorm.DB) error {
		var customer Customer
		if err := tx.First(&customer, number%200+1).Error; err != nil {
			return err
		}
		var eager []Customer
		ids := []int{number%50 + 1, number%60 + 101}
		if err := tx.Preload("Orders").Where("id IN ?", ids).Order("id").Find(&eager).Error; err != nil {
			return err
		}
		var total int
		sum := tx.Model(&Order{}).Select("sum(amount)").Where("customer_id = ?", customer.ID)
		if err := sum.Scan(&total).Error; err != nil {
			return err
		}
		if err := tx.Order("id").Where("customer_id = ?", customer.ID).Find(&customer.Orders).Error; err != nil {
			return err
		}
		var amounts, lengths []string
		for _, order := range customer.Orders {
			amounts = append(amounts, strconv.Itoa(order.Amount))
		}
		for _, one := range eager {
			lengths = append(lengths, strconv.Itoa(len(one.Orders)))
		}
		answer = fmt.Sprint(customer.Name, " ", customer.Visits, " ", strings.Join(amounts, ","), " ",
			strings.Join(lengths, ","), " ", total)
		if number%10 != 0 {
			return nil
		}
		written := tx.Model(&Customer{}).Where("id = ?", customer.ID)
		if err := written.Update("visits", customer.Visits+1).Error; err != nil {
			return err
		}
		return tx.Create(&Order{ID: 10000 + number, CustomerID: customer.ID, Amount: number}).Error
	})
	return answer, err
}

func main() {
	db, err := gorm.Open(postgres.Open(os.Args[1]), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		panic(err)
	}
	count, _ := strconv.Atoi(os.Args[2])
	var times []float64
	for number := range count {
		begun := time.Now()
		answer, err := request(db, number)
		if err != nil {
			panic(err)
		}
		times = append(times, float64(time.Since(begun).Microseconds())/1000)
		fmt.Println(number, answer)
	}
	sort.Float64s(times)
	fmt.Fprintf(os.Stderr, "%.2f %.2f\n", times[count/2], times[count*99/100])
}
