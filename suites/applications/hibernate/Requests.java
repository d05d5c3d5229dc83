// Requests of a web application over Hibernate with its defaults, each one in a transaction (suites/applications.sh).
// Arguments: address, number of requests. Answers to standard output, median and 99th percentile to standard error.

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.JoinColumn;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.OrderBy;
import jakarta.persistence.Table;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.Collectors;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

class Requests {
    @Entity
    @Table(name = "customer")
    static class Customer {
        @Id
        int id;

        String name;
        int visits;

        @OneToMany(mappedBy = "customer")
        @OrderBy("id")
        List<Order> orders;
    }

    @Entity(name = "Purchase")
    @Table(name = "purchase")
    static class Order {
        @Id
        int id;

        @ManyToOne
        @JoinColumn(name = "customer_id")
        Customer customer;

        @Column
        int amount;
    }

    static String request(Session session, int number) {
        var customer = session.find(Customer.class, number % 200 + 1);
        var eager = session.createQuery(
                        "FROM Requests$Customer c LEFT JOIN FETCH c.orders WHERE c.id IN (:ids) ORDER BY c.id", Customer.class)
                .setParameter("ids", List.of(number % 50 + 1, number % 60 + 101))
                .list();
        var total = session.createQuery("SELECT sum(o.amount) FROM Purchase o WHERE o.customer = :customer", Long.class)
                .setParameter("customer", customer)
                .uniqueResult();
        var amounts = customer.orders.stream().map(order -> "" + order.amount).collect(Collectors.joining(","));
        var lengths = eager.stream().map(one -> "" + one.orders.size()).collect(Collectors.joining(","));
        var answer = customer.name + " " + customer.visits + " " + amounts + " " + lengths + " " + total;
        if (number % 10 == 0) {
            customer.visits++;
            var order = new Order();
            order.id = 10_000 + number;
            order.customer = customer;
            order.amount = number;
            session.persist(order);
        }
        return answer;
    }

    static SessionFactory factory(String address) {
        Logger.getLogger("org.hibernate").setLevel(Level.OFF);
        var parts = address.substring("postgres://".length()).split("@");
        return new Configuration()
                .addAnnotatedClass(Customer.class)
                .addAnnotatedClass(Order.class)
                .setProperty("hibernate.connection.url", "jdbc:postgresql://" + parts[1])
                .setProperty("hibernate.connection.username", parts[0])
                .buildSessionFactory();
    }

    public static void main(String[] arguments) {
        var count = Integer.parseInt(arguments[1]);
        var times = new ArrayList<Double>();
        try (var factory = factory(arguments[0])) {
            for (var number = 0; number < count; number++) {
                var begun = System.nanoTime();
                var now = number;
                var answer = factory.fromTransaction(session -> request(session, now));
                times.add((System.nanoTime() - begun) / 1e6);
                System.out.println(number + " " + answer);
            }
        }
        Collections.sort(times);
        System.err.printf("%.2f %.2f%n", times.get(count / 2), times.get(count * 99 / 100));
    }
}
