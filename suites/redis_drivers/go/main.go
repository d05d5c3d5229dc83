// go-redis in ordinary use: a pool, pipelines, WATCH with repetition, a block of BEGIN and COMMIT on one connection.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

func check(is bool, what string) {
	if !is {
		fmt.Println("wrong:", what)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	check(client.Set(ctx, "go:k", "v", 0).Err() == nil, "set")
	check(client.Get(ctx, "go:k").Val() == "v", "get")
	check(client.Get(ctx, "go:none").Err() == redis.Nil, "nil")
	check(!client.SetNX(ctx, "go:k", "w", 0).Val(), "setnx")
	check(client.IncrBy(ctx, "go:n", 41).Val() == 41 && client.Incr(ctx, "go:n").Val() == 42, "incr")
	values := client.MGet(ctx, "go:k", "go:none", "go:n").Val()
	check(len(values) == 3 && values[0] == "v" && values[1] == nil && values[2] == "42", "mget")
	commands, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "go:n")
		pipe.Get(ctx, "go:n")
		return nil
	})
	check(err == nil && commands[1].(*redis.StringCmd).Val() == "43", "MULTI and EXEC")

	client.MSet(ctx, "go:left", 100, "go:right", 0)
	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 10 {
				move := func(tx *redis.Tx) error {
					left, _ := tx.Get(ctx, "go:left").Int()
					right, _ := tx.Get(ctx, "go:right").Int()
					_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						pipe.MSet(ctx, "go:left", left-1, "go:right", right+1)
						return nil
					})
					return err
				}
				for client.Watch(ctx, move, "go:left", "go:right") == redis.TxFailedErr {
				}
			}
		}()
	}
	group.Wait()
	check(client.Get(ctx, "go:left").Val() == "60" && client.Get(ctx, "go:right").Val() == "40", "transfers by WATCH")

	one, other := client.Conn(), client.Conn()
	for _, conn := range []*redis.Conn{one, other} {
		check(conn.Do(ctx, "BEGIN").Err() == nil, "BEGIN")
		check(conn.Set(ctx, "go:contended", "x", 0).Err() == nil, "set in a block")
	}
	check(one.Do(ctx, "COMMIT").Val() == "OK", "COMMIT")
	check(strings.HasPrefix(other.Do(ctx, "COMMIT").Err().Error(), "CONFLICT "), "CONFLICT")
	iterator, count := client.Scan(ctx, 0, "go:*", 2).Iterator(), 0
	for iterator.Next(ctx) {
		count++
	}
	check(iterator.Err() == nil && count == 5, "SCAN")
	fmt.Println("go-redis: pool, pipelines, WATCH, blocks, SCAN")
}
