//! TPC-C's consistency conditions (clause 3.3.2), each as a query that gives what breaks it.

use crate::workload::Check;
use load_clients::session::{Session, Trouble};

/// All twelve, for tables that were loaded with orders of which the first without a carrier has this number (2,101).
///
/// Two of them are written for tables in which nothing has been delivered yet, and are kept here in the form that stays true:
/// 3.3.2.2 asks for the newest entry of the list of new orders only where there is one; 3.3.2.11 adds the orders that were
/// delivered since, which the customers count (`c_delivery_cnt`), to the 2,100 that were loaded as delivered.
#[must_use]
pub fn all(undelivered_from: i32) -> Vec<Check> {
    let mut all = of_orders(undelivered_from - 1);
    all.extend(of_money());
    all.sort_by_key(|check| {
        check.number.rsplit('.').next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(0)
    });
    all
}

fn of_orders(delivered_at_first: i32) -> Vec<Check> {
    vec![
        Check::query(
            "3.3.2.2",
            "a district's next order follows its newest, and the newest of the new orders",
            "SELECT d_w_id, d_id, d_next_o_id, newest_order, newest_new_order FROM tpcc_district \
             LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS newest_order FROM tpcc_orders GROUP BY 1, 2) o \
                ON (o_w_id, o_d_id) = (d_w_id, d_id) \
             LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS newest_new_order FROM tpcc_new_order GROUP BY 1, 2) n \
                ON (no_w_id, no_d_id) = (d_w_id, d_id) \
             WHERE d_next_o_id - 1 IS DISTINCT FROM newest_order OR d_next_o_id - 1 <> newest_new_order",
        ),
        Check::query(
            "3.3.2.3",
            "the new orders of a district have no gaps",
            "SELECT no_w_id, no_d_id, min(no_o_id), max(no_o_id), count(*) FROM tpcc_new_order GROUP BY 1, 2 \
             HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
        ),
        Check::query(
            "3.3.2.4",
            "a district's orders name as many lines as there are",
            "SELECT d_w_id, d_id, named, lines FROM tpcc_district \
             LEFT JOIN (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS named FROM tpcc_orders GROUP BY 1, 2) o \
                ON (o_w_id, o_d_id) = (d_w_id, d_id) \
             LEFT JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines FROM tpcc_order_line GROUP BY 1, 2) l \
                ON (ol_w_id, ol_d_id) = (d_w_id, d_id) WHERE named IS DISTINCT FROM lines",
        ),
        Check::query(
            "3.3.2.5",
            "an order has no carrier if, and only if, it is among the new ones",
            "SELECT o_w_id, o_d_id, o_id, no_o_id, o_carrier_id FROM tpcc_orders \
             FULL JOIN tpcc_new_order ON (no_w_id, no_d_id, no_o_id) = (o_w_id, o_d_id, o_id) \
             WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
        ),
        Check::query(
            "3.3.2.6",
            "an order names as many lines as it has",
            "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, ol_o_id, lines FROM tpcc_orders FULL JOIN \
                (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines FROM tpcc_order_line GROUP BY 1, 2, 3) l \
                ON (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id) WHERE o_ol_cnt IS DISTINCT FROM lines",
        ),
        Check::query(
            "3.3.2.7",
            "a line has no delivery date if, and only if, its order has no carrier",
            "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id FROM tpcc_order_line \
             LEFT JOIN tpcc_orders ON (o_w_id, o_d_id, o_id) = (ol_w_id, ol_d_id, ol_o_id) \
             WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
        ),
        Check::query(
            "3.3.2.11",
            "a district's orders are its new ones, those loaded as delivered, and those that its customers count as delivered",
            format!(
                "SELECT d_w_id, d_id, orders, new_orders, deliveries FROM tpcc_district \
                 JOIN (SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS deliveries FROM tpcc_customer GROUP BY 1, 2) c \
                    ON (c_w_id, c_d_id) = (d_w_id, d_id) \
                 LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS orders FROM tpcc_orders GROUP BY 1, 2) o \
                    ON (o_w_id, o_d_id) = (d_w_id, d_id) \
                 LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS new_orders FROM tpcc_new_order GROUP BY 1, 2) n \
                    ON (no_w_id, no_d_id) = (d_w_id, d_id) \
                 WHERE orders - coalesce(new_orders, 0) IS DISTINCT FROM {delivered_at_first} + deliveries"
            ),
        ),
    ]
}

fn of_money() -> Vec<Check> {
    vec![
        Check::query(
            "3.3.2.1",
            "a warehouse's total equals the sum of its districts",
            "SELECT w_id, w_ytd, sum(d_ytd) FROM tpcc_warehouse LEFT JOIN tpcc_district ON d_w_id = w_id \
             GROUP BY w_id, w_ytd HAVING w_ytd IS DISTINCT FROM sum(d_ytd)",
        ),
        Check::query(
            "3.3.2.8",
            "a warehouse's total equals the sum of its history",
            "SELECT w_id, w_ytd, paid FROM tpcc_warehouse \
             LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM tpcc_history GROUP BY 1) h ON h_w_id = w_id \
             WHERE w_ytd IS DISTINCT FROM paid",
        ),
        Check::query(
            "3.3.2.9",
            "a district's total equals the sum of its history",
            "SELECT d_w_id, d_id, d_ytd, paid FROM tpcc_district \
             LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM tpcc_history GROUP BY 1, 2) h \
                ON (h_w_id, h_d_id) = (d_w_id, d_id) WHERE d_ytd IS DISTINCT FROM paid",
        ),
        Check::query(
            "3.3.2.10",
            "a customer's balance is the amount delivered less the amount paid",
            format!(
                "SELECT c_w_id, c_d_id, c_id, c_balance, delivered, paid FROM tpcc_customer {DELIVERED} \
                 LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM tpcc_history GROUP BY 1, 2, 3) h \
                    ON (h_c_w_id, h_c_d_id, h_c_id) = (c_w_id, c_d_id, c_id) \
                 WHERE c_balance <> coalesce(delivered, 0) - coalesce(paid, 0)"
            ),
        ),
        Check::query(
            "3.3.2.12",
            "a customer's balance plus payments are the amount delivered",
            format!(
                "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, delivered FROM tpcc_customer {DELIVERED} \
                 WHERE c_balance + c_ytd_payment <> coalesce(delivered, 0)"
            ),
        ),
    ]
}

/// Number of orders and payments before a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    orders: u64,
    payments: u64,
}

const ORDERS: &str = "SELECT count(*) FROM tpcc_orders";
const PAYMENTS: &str = "SELECT count(*) FROM tpcc_history";

impl Before {
    pub(crate) async fn read(session: &mut Session) -> Result<Before, Trouble> {
        let orders = session.ask(ORDERS, &[]).await?.first()?.number(0).unwrap_or(0).unsigned_abs();
        let payments = session.ask(PAYMENTS, &[]).await?.first()?.number(0).unwrap_or(0).unsigned_abs();
        Ok(Before { orders, payments })
    }

    /// Two rules that the specification does not number: nothing that was acknowledged is lost, nothing is there twice.
    pub(crate) fn checks(self, new_orders: (u64, u64), payments: (u64, u64)) -> [Check; 2] {
        let within = |number: &str, what: &str, query: &str, before: u64, bounds: (u64, u64)| {
            Check::within(number, what, query, (before + bounds.0, before + bounds.1))
        };
        [
            within("orders", "each acknowledged new-order has an order", ORDERS, self.orders, new_orders),
            within(
                "payments",
                "the history has each acknowledged payment",
                PAYMENTS,
                self.payments,
                payments,
            ),
        ]
    }
}

/// Deliveries to each customer, joined to the customer.
const DELIVERED: &str = "LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM tpcc_orders \
    JOIN tpcc_order_line ON (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id) \
    WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) o ON (o_w_id, o_d_id, o_c_id) = (c_w_id, c_d_id, c_id)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twelve_in_their_order() {
        let numbers: Vec<String> = all(2101).into_iter().map(|check| check.number).collect();
        let expected: Vec<String> = (1..=12).map(|number| format!("3.3.2.{number}")).collect();
        assert_eq!(numbers, expected);
    }
}
