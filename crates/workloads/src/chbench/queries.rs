//! The 22 queries of TPC-H, asked of TPC-C's tables, in PostgreSQL's words.
//!
//! Dates are bounds that all rows keep, as in the published queries; the upper ones lie further in the future than there, for
//! our rows are younger.

/// Query n stands at n - 1.
pub(super) const QUERIES: [&str; 22] = [
    "SELECT ol_number, sum(ol_quantity) AS sum_qty, sum(ol_amount) AS sum_amount, avg(ol_quantity) AS avg_qty, \
     avg(ol_amount) AS avg_amount, count(*) AS count_order FROM tpcc_order_line \
     WHERE ol_delivery_d > '2007-01-02 00:00:00' GROUP BY ol_number ORDER BY ol_number",
    "SELECT su_suppkey, su_name, n_name, i_id, i_name, su_address, su_phone, su_comment \
     FROM tpcc_item, chbench_supplier, tpcc_stock, chbench_nation, chbench_region, \
     (SELECT s_i_id AS m_i_id, min(s_quantity) AS m_s_quantity \
      FROM tpcc_stock, chbench_supplier, chbench_nation, chbench_region \
      WHERE mod(s_w_id * s_i_id, 10000) = su_suppkey AND su_nationkey = n_nationkey AND n_regionkey = r_regionkey \
      AND r_name LIKE 'Europ%' GROUP BY s_i_id) m \
     WHERE i_id = s_i_id AND mod(s_w_id * s_i_id, 10000) = su_suppkey AND su_nationkey = n_nationkey \
     AND n_regionkey = r_regionkey AND i_data LIKE '%b' AND r_name LIKE 'Europ%' AND i_id = m_i_id \
     AND s_quantity = m_s_quantity ORDER BY n_name, su_name, i_id",
    "SELECT ol_o_id, ol_w_id, ol_d_id, sum(ol_amount) AS revenue, o_entry_d \
     FROM tpcc_customer, tpcc_new_order, tpcc_orders, tpcc_order_line \
     WHERE c_state LIKE 'A%' AND c_id = o_c_id AND c_w_id = o_w_id AND c_d_id = o_d_id AND no_w_id = o_w_id \
     AND no_d_id = o_d_id AND no_o_id = o_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
     AND o_entry_d > '2007-01-02 00:00:00' GROUP BY ol_o_id, ol_w_id, ol_d_id, o_entry_d \
     ORDER BY revenue DESC, o_entry_d",
    "SELECT o_ol_cnt, count(*) AS order_count FROM tpcc_orders WHERE o_entry_d >= '2007-01-02 00:00:00' \
     AND o_entry_d < '2100-01-02 00:00:00' AND EXISTS (SELECT * FROM tpcc_order_line WHERE o_id = ol_o_id \
     AND o_w_id = ol_w_id AND o_d_id = ol_d_id AND ol_delivery_d >= o_entry_d) GROUP BY o_ol_cnt ORDER BY o_ol_cnt",
    "SELECT n_name, sum(ol_amount) AS revenue FROM tpcc_customer, tpcc_orders, tpcc_order_line, tpcc_stock, \
     chbench_supplier, chbench_nation, chbench_region WHERE c_id = o_c_id AND c_w_id = o_w_id AND c_d_id = o_d_id \
     AND ol_o_id = o_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_w_id = s_w_id AND ol_i_id = s_i_id \
     AND mod(s_w_id * s_i_id, 10000) = su_suppkey AND ascii(substring(c_state from 1 for 1)) = su_nationkey \
     AND su_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'Europe' \
     AND o_entry_d >= '2007-01-02 00:00:00' GROUP BY n_name ORDER BY revenue DESC",
    "SELECT sum(ol_amount) AS revenue FROM tpcc_order_line WHERE ol_delivery_d >= '1999-01-01 00:00:00' \
     AND ol_delivery_d < '2100-01-01 00:00:00' AND ol_quantity BETWEEN 1 AND 100000",
    "SELECT su_nationkey AS supp_nation, substring(c_state from 1 for 1) AS cust_nation, \
     extract(year FROM o_entry_d) AS l_year, sum(ol_amount) AS revenue FROM chbench_supplier, tpcc_stock, \
     tpcc_order_line, tpcc_orders, tpcc_customer, chbench_nation n1, chbench_nation n2 \
     WHERE ol_supply_w_id = s_w_id AND ol_i_id = s_i_id AND mod(s_w_id * s_i_id, 10000) = su_suppkey \
     AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND c_id = o_c_id AND c_w_id = o_w_id \
     AND c_d_id = o_d_id AND su_nationkey = n1.n_nationkey \
     AND ascii(substring(c_state from 1 for 1)) = n2.n_nationkey \
     AND ((n1.n_name = 'Germany' AND n2.n_name = 'Cambodia') OR (n1.n_name = 'Cambodia' AND n2.n_name = 'Germany')) \
     AND ol_delivery_d BETWEEN '2007-01-02 00:00:00' AND '2100-01-02 00:00:00' \
     GROUP BY su_nationkey, substring(c_state from 1 for 1), extract(year FROM o_entry_d) \
     ORDER BY su_nationkey, cust_nation, l_year",
    "SELECT extract(year FROM o_entry_d) AS l_year, \
     sum(CASE WHEN n2.n_name = 'Germany' THEN ol_amount ELSE 0 END) / (1 + sum(ol_amount)) AS mkt_share \
     FROM tpcc_item, chbench_supplier, tpcc_stock, tpcc_order_line, tpcc_orders, tpcc_customer, chbench_nation n1, \
     chbench_nation n2, chbench_region WHERE i_id = s_i_id AND ol_i_id = s_i_id AND ol_supply_w_id = s_w_id \
     AND mod(s_w_id * s_i_id, 10000) = su_suppkey AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
     AND c_id = o_c_id AND c_w_id = o_w_id AND c_d_id = o_d_id \
     AND n1.n_nationkey = ascii(substring(c_state from 1 for 1)) AND n1.n_regionkey = r_regionkey AND ol_i_id < 1000 \
     AND r_name = 'Europe' AND su_nationkey = n2.n_nationkey \
     AND o_entry_d BETWEEN '2007-01-02 00:00:00' AND '2100-01-02 00:00:00' AND i_data LIKE '%b' AND i_id = ol_i_id \
     GROUP BY extract(year FROM o_entry_d) ORDER BY l_year",
    "SELECT n_name, extract(year FROM o_entry_d) AS l_year, sum(ol_amount) AS sum_profit FROM tpcc_item, tpcc_stock, \
     chbench_supplier, tpcc_order_line, tpcc_orders, chbench_nation WHERE ol_i_id = s_i_id AND ol_supply_w_id = s_w_id \
     AND mod(s_w_id * s_i_id, 10000) = su_suppkey AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
     AND ol_i_id = i_id AND su_nationkey = n_nationkey AND i_data LIKE '%bb' \
     GROUP BY n_name, extract(year FROM o_entry_d) ORDER BY n_name, l_year DESC",
    "SELECT c_id, c_last, sum(ol_amount) AS revenue, c_city, c_phone, n_name \
     FROM tpcc_customer, tpcc_orders, tpcc_order_line, chbench_nation WHERE c_id = o_c_id AND c_w_id = o_w_id \
     AND c_d_id = o_d_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
     AND o_entry_d >= '2007-01-02 00:00:00' AND o_entry_d <= ol_delivery_d \
     AND n_nationkey = ascii(substring(c_state from 1 for 1)) GROUP BY c_id, c_last, c_city, c_phone, n_name \
     ORDER BY revenue DESC",
    "SELECT s_i_id, sum(s_order_cnt) AS ordercount FROM tpcc_stock, chbench_supplier, chbench_nation \
     WHERE mod(s_w_id * s_i_id, 10000) = su_suppkey AND su_nationkey = n_nationkey AND n_name = 'Germany' \
     GROUP BY s_i_id HAVING sum(s_order_cnt) > (SELECT sum(s_order_cnt) * .005 \
     FROM tpcc_stock, chbench_supplier, chbench_nation WHERE mod(s_w_id * s_i_id, 10000) = su_suppkey \
     AND su_nationkey = n_nationkey AND n_name = 'Germany') ORDER BY ordercount DESC",
    "SELECT o_ol_cnt, sum(CASE WHEN o_carrier_id = 1 OR o_carrier_id = 2 THEN 1 ELSE 0 END) AS high_line_count, \
     sum(CASE WHEN o_carrier_id <> 1 AND o_carrier_id <> 2 THEN 1 ELSE 0 END) AS low_line_count \
     FROM tpcc_orders, tpcc_order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
     AND o_entry_d <= ol_delivery_d AND ol_delivery_d < '2100-01-01 00:00:00' GROUP BY o_ol_cnt ORDER BY o_ol_cnt",
    "SELECT c_count, count(*) AS custdist FROM (SELECT c_id, count(o_id) FROM tpcc_customer LEFT JOIN tpcc_orders \
     ON (c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id AND o_carrier_id > 8) GROUP BY c_id) \
     AS c_orders (c_id, c_count) GROUP BY c_count ORDER BY custdist DESC, c_count DESC",
    "SELECT 100.00 * sum(CASE WHEN i_data LIKE 'PR%' THEN ol_amount ELSE 0 END) / (1 + sum(ol_amount)) \
     AS promo_revenue FROM tpcc_order_line, tpcc_item WHERE ol_i_id = i_id \
     AND ol_delivery_d >= '2007-01-02 00:00:00' AND ol_delivery_d < '2100-01-02 00:00:00'",
    "WITH revenue (supplier_no, total_revenue) AS (SELECT mod(s_w_id * s_i_id, 10000), sum(ol_amount) \
     FROM tpcc_order_line, tpcc_stock WHERE ol_i_id = s_i_id AND ol_supply_w_id = s_w_id \
     AND ol_delivery_d >= '2007-01-02 00:00:00' GROUP BY mod(s_w_id * s_i_id, 10000)) \
     SELECT su_suppkey, su_name, su_address, su_phone, total_revenue FROM chbench_supplier, revenue \
     WHERE su_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue) ORDER BY su_suppkey",
    "SELECT i_name, substring(i_data from 1 for 3) AS brand, i_price, \
     count(DISTINCT mod(s_w_id * s_i_id, 10000)) AS supplier_cnt FROM tpcc_stock, tpcc_item WHERE i_id = s_i_id \
     AND i_data NOT LIKE 'zz%' AND mod(s_w_id * s_i_id, 10000) NOT IN \
     (SELECT su_suppkey FROM chbench_supplier WHERE su_comment LIKE '%bad%') \
     GROUP BY i_name, substring(i_data from 1 for 3), i_price ORDER BY supplier_cnt DESC",
    "SELECT sum(ol_amount) / 2.0 AS avg_yearly FROM tpcc_order_line, (SELECT i_id, avg(ol_quantity) AS a \
     FROM tpcc_item, tpcc_order_line WHERE i_data LIKE '%b' AND ol_i_id = i_id GROUP BY i_id) t \
     WHERE ol_i_id = t.i_id AND ol_quantity < t.a",
    "SELECT c_last, c_id, o_id, o_entry_d, o_ol_cnt, sum(ol_amount) AS amount_sum \
     FROM tpcc_customer, tpcc_orders, tpcc_order_line WHERE c_id = o_c_id AND c_w_id = o_w_id AND c_d_id = o_d_id \
     AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
     GROUP BY o_id, o_w_id, o_d_id, c_id, c_last, o_entry_d, o_ol_cnt HAVING sum(ol_amount) > 200 \
     ORDER BY amount_sum DESC, o_entry_d",
    "SELECT sum(ol_amount) AS revenue FROM tpcc_order_line, tpcc_item \
     WHERE (ol_i_id = i_id AND i_data LIKE '%a' AND ol_quantity >= 1 AND ol_quantity <= 10 \
     AND i_price BETWEEN 1 AND 400000 AND ol_w_id IN (1, 2, 3)) \
     OR (ol_i_id = i_id AND i_data LIKE '%b' AND ol_quantity >= 1 AND ol_quantity <= 10 \
     AND i_price BETWEEN 1 AND 400000 AND ol_w_id IN (1, 2, 4)) \
     OR (ol_i_id = i_id AND i_data LIKE '%c' AND ol_quantity >= 1 AND ol_quantity <= 10 \
     AND i_price BETWEEN 1 AND 400000 AND ol_w_id IN (1, 5, 3))",
    "SELECT su_name, su_address FROM chbench_supplier, chbench_nation WHERE su_suppkey IN \
     (SELECT mod(s_i_id * s_w_id, 10000) FROM tpcc_stock, tpcc_order_line WHERE s_i_id IN \
      (SELECT i_id FROM tpcc_item WHERE i_data LIKE 'co%') AND ol_i_id = s_i_id \
      AND ol_delivery_d > '2010-05-23 12:00:00' GROUP BY s_i_id, s_w_id, s_quantity \
      HAVING 2 * s_quantity > sum(ol_quantity)) \
     AND su_nationkey = n_nationkey AND n_name = 'Germany' ORDER BY su_name",
    "SELECT su_name, count(*) AS numwait FROM chbench_supplier, tpcc_order_line l1, tpcc_orders, tpcc_stock, \
     chbench_nation WHERE l1.ol_o_id = o_id AND l1.ol_w_id = o_w_id AND l1.ol_d_id = o_d_id AND l1.ol_w_id = s_w_id \
     AND l1.ol_i_id = s_i_id AND mod(s_w_id * s_i_id, 10000) = su_suppkey AND l1.ol_delivery_d > o_entry_d \
     AND NOT EXISTS (SELECT * FROM tpcc_order_line l2 WHERE l2.ol_o_id = l1.ol_o_id AND l2.ol_w_id = l1.ol_w_id \
     AND l2.ol_d_id = l1.ol_d_id AND l2.ol_delivery_d > l1.ol_delivery_d) AND su_nationkey = n_nationkey \
     AND n_name = 'Germany' GROUP BY su_name ORDER BY numwait DESC, su_name",
    "SELECT substring(c_state from 1 for 1) AS country, count(*) AS numcust, sum(c_balance) AS totacctbal \
     FROM tpcc_customer WHERE substring(c_phone from 1 for 1) IN ('1', '2', '3', '4', '5', '6', '7') \
     AND c_balance > (SELECT avg(c_balance) FROM tpcc_customer WHERE c_balance > 0.00 \
     AND substring(c_phone from 1 for 1) IN ('1', '2', '3', '4', '5', '6', '7')) \
     AND NOT EXISTS (SELECT * FROM tpcc_orders WHERE o_c_id = c_id AND o_w_id = c_w_id AND o_d_id = c_d_id) \
     GROUP BY substring(c_state from 1 for 1) ORDER BY country",
];
