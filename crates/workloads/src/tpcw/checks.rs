//! Conditions that must hold for the bookshop after a run.

use super::rules::Size;
use crate::workload::Check;

/// All rules. There must be so many orders.
pub(super) fn all(size: Size, orders: (u64, u64)) -> Vec<Check> {
    vec![
        Check::query(
            "sub-totals",
            "an order's sub-total is the sum of its lines less the discount",
            "SELECT o_id, o_sub_total, lines FROM tpcw_orders LEFT JOIN (SELECT ol_o_id, \
                round(sum(ol_qty * ol_price) * (100 - max(ol_discount)) / 100, 2) AS lines \
                FROM tpcw_order_line GROUP BY 1) l ON ol_o_id = o_id WHERE o_sub_total IS DISTINCT FROM lines",
        ),
        Check::query(
            "totals",
            "an order's total is its sub-total, its tax and its shipping, and was paid",
            "SELECT o_id, o_total, o_sub_total, o_tax, things, cx_xact_amt FROM tpcw_orders \
             LEFT JOIN (SELECT ol_o_id, sum(ol_qty) AS things FROM tpcw_order_line GROUP BY 1) l ON ol_o_id = o_id \
             LEFT JOIN tpcw_cc_xacts ON cx_o_id = o_id WHERE o_tax <> round(o_sub_total * 0.0825, 2) \
             OR o_total IS DISTINCT FROM o_sub_total + o_tax + 3 + things OR cx_xact_amt IS DISTINCT FROM o_total",
        ),
        Check::query(
            "lines",
            "every line and every payment belongs to an order",
            "SELECT ol_o_id, cx_o_id FROM tpcw_order_line FULL JOIN tpcw_cc_xacts ON cx_o_id = ol_o_id \
             LEFT JOIN tpcw_orders ON o_id = coalesce(ol_o_id, cx_o_id) WHERE o_id IS NULL OR cx_o_id IS NULL",
        ),
        Check::query(
            "stock",
            "no book's stock is below 10",
            "SELECT i_id, i_stock FROM tpcw_item WHERE i_stock < 10",
        ),
        Check::query(
            "sold",
            "a book's stock is the initial stock, less sales, plus 21 for each refill",
            format!(
                "SELECT i_id, i_stock, sold FROM tpcw_item LEFT JOIN (SELECT ol_i_id, sum(ol_qty) AS sold \
                 FROM tpcw_order_line WHERE ol_o_id > {} GROUP BY 1) l ON ol_i_id = i_id \
                 WHERE (10 + i_id % 21 - i_stock - coalesce(sold, 0)) % 21 <> 0",
                size.orders()
            ),
        ),
        Check::query(
            "customers",
            "every order has its customer, and its addresses",
            "SELECT o_id, o_c_id, o_bill_addr_id, o_ship_addr_id FROM tpcw_orders \
             LEFT JOIN tpcw_customer ON c_id = o_c_id LEFT JOIN tpcw_address b ON b.addr_id = o_bill_addr_id \
             LEFT JOIN tpcw_address s ON s.addr_id = o_ship_addr_id \
             WHERE c_id IS NULL OR b.addr_id IS NULL OR s.addr_id IS NULL",
        ),
        Check::within(
            "acknowledged",
            "each acknowledged buy-confirm has an order",
            "SELECT count(*) FROM tpcw_orders",
            orders,
        ),
    ]
}
