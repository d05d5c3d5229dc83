//! TPC-C's tables (clause 1.3) and what they hold at first (clause 4.3.3.1).

use super::rules::{DISTRICTS, Rules, Size};
use crate::workload::{Loader, TextRow};
use load_clients::chance::digits;
use load_clients::session::Trouble;
use load_clients::value::{Decimal, TimeText, now_us};

/// Names in an order in which everything can be dropped.
const NAMES: [&str; 9] =
    ["order_line", "new_order", "orders", "history", "stock", "customer", "district", "warehouse", "item"];

const TABLES: &str = "
CREATE TABLE tpcc_warehouse (w_id int NOT NULL, w_name varchar(10) NOT NULL, w_street_1 varchar(20) NOT NULL,
    w_street_2 varchar(20) NOT NULL, w_city varchar(20) NOT NULL, w_state char(2) NOT NULL, w_zip char(9) NOT NULL,
    w_tax numeric(4,4) NOT NULL, w_ytd numeric(12,2) NOT NULL);
CREATE TABLE tpcc_district (d_id int NOT NULL, d_w_id int NOT NULL, d_name varchar(10) NOT NULL,
    d_street_1 varchar(20) NOT NULL, d_street_2 varchar(20) NOT NULL, d_city varchar(20) NOT NULL,
    d_state char(2) NOT NULL, d_zip char(9) NOT NULL, d_tax numeric(4,4) NOT NULL, d_ytd numeric(12,2) NOT NULL,
    d_next_o_id int NOT NULL);
CREATE TABLE tpcc_customer (c_id int NOT NULL, c_d_id int NOT NULL, c_w_id int NOT NULL, c_first varchar(16) NOT NULL,
    c_middle char(2) NOT NULL, c_last varchar(16) NOT NULL, c_street_1 varchar(20) NOT NULL,
    c_street_2 varchar(20) NOT NULL, c_city varchar(20) NOT NULL, c_state char(2) NOT NULL, c_zip char(9) NOT NULL,
    c_phone char(16) NOT NULL, c_since timestamp NOT NULL, c_credit char(2) NOT NULL,
    c_credit_lim numeric(12,2) NOT NULL, c_discount numeric(4,4) NOT NULL, c_balance numeric(12,2) NOT NULL,
    c_ytd_payment numeric(12,2) NOT NULL, c_payment_cnt int NOT NULL, c_delivery_cnt int NOT NULL,
    c_data varchar(500) NOT NULL);
CREATE TABLE tpcc_history (h_c_id int NOT NULL, h_c_d_id int NOT NULL, h_c_w_id int NOT NULL, h_d_id int NOT NULL,
    h_w_id int NOT NULL, h_date timestamp NOT NULL, h_amount numeric(6,2) NOT NULL, h_data varchar(24) NOT NULL);
CREATE TABLE tpcc_new_order (no_o_id int NOT NULL, no_d_id int NOT NULL, no_w_id int NOT NULL);
CREATE TABLE tpcc_orders (o_id int NOT NULL, o_d_id int NOT NULL, o_w_id int NOT NULL, o_c_id int NOT NULL,
    o_entry_d timestamp NOT NULL, o_carrier_id int, o_ol_cnt int NOT NULL, o_all_local int NOT NULL);
CREATE TABLE tpcc_order_line (ol_o_id int NOT NULL, ol_d_id int NOT NULL, ol_w_id int NOT NULL, ol_number int NOT NULL,
    ol_i_id int NOT NULL, ol_supply_w_id int NOT NULL, ol_delivery_d timestamp, ol_quantity int NOT NULL,
    ol_amount numeric(6,2) NOT NULL, ol_dist_info char(24) NOT NULL);
CREATE TABLE tpcc_item (i_id int NOT NULL, i_im_id int NOT NULL, i_name varchar(24) NOT NULL,
    i_price numeric(5,2) NOT NULL, i_data varchar(50) NOT NULL);
CREATE TABLE tpcc_stock (s_i_id int NOT NULL, s_w_id int NOT NULL, s_quantity int NOT NULL,
    s_dist_01 char(24) NOT NULL, s_dist_02 char(24) NOT NULL, s_dist_03 char(24) NOT NULL, s_dist_04 char(24) NOT NULL,
    s_dist_05 char(24) NOT NULL, s_dist_06 char(24) NOT NULL, s_dist_07 char(24) NOT NULL, s_dist_08 char(24) NOT NULL,
    s_dist_09 char(24) NOT NULL, s_dist_10 char(24) NOT NULL, s_ytd int NOT NULL, s_order_cnt int NOT NULL,
    s_remote_cnt int NOT NULL, s_data varchar(50) NOT NULL);
";

const KEYS: [&str; 10] = [
    "ALTER TABLE tpcc_warehouse ADD PRIMARY KEY (w_id)",
    "ALTER TABLE tpcc_district ADD PRIMARY KEY (d_w_id, d_id)",
    "ALTER TABLE tpcc_customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id)",
    "ALTER TABLE tpcc_new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
    "ALTER TABLE tpcc_orders ADD PRIMARY KEY (o_w_id, o_d_id, o_id)",
    "ALTER TABLE tpcc_order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
    "ALTER TABLE tpcc_item ADD PRIMARY KEY (i_id)",
    "ALTER TABLE tpcc_stock ADD PRIMARY KEY (s_w_id, s_i_id)",
    "CREATE INDEX tpcc_customer_name ON tpcc_customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX tpcc_orders_customer ON tpcc_orders (o_w_id, o_d_id, o_c_id, o_id)",
];

const FOREIGN_KEYS: [&str; 9] = [
    "ALTER TABLE tpcc_district ADD FOREIGN KEY (d_w_id) REFERENCES tpcc_warehouse",
    "ALTER TABLE tpcc_customer ADD FOREIGN KEY (c_w_id, c_d_id) REFERENCES tpcc_district",
    "ALTER TABLE tpcc_history ADD FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES tpcc_customer",
    "ALTER TABLE tpcc_history ADD FOREIGN KEY (h_w_id, h_d_id) REFERENCES tpcc_district",
    "ALTER TABLE tpcc_orders ADD FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES tpcc_customer",
    "ALTER TABLE tpcc_new_order ADD FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES tpcc_orders",
    "ALTER TABLE tpcc_stock ADD FOREIGN KEY (s_i_id) REFERENCES tpcc_item",
    "ALTER TABLE tpcc_order_line ADD FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES tpcc_orders",
    "ALTER TABLE tpcc_order_line ADD FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES tpcc_stock",
];

/// Drops and makes the tables.
pub(crate) fn tables() -> String {
    let drops: String = NAMES.iter().map(|name| format!("DROP TABLE IF EXISTS tpcc_{name};")).collect();
    drops + TABLES
}

/// Keys, indexes and statistics.
pub(crate) fn finish(foreign_keys: bool) -> Vec<String> {
    let keys = KEYS.iter().chain(if foreign_keys { &FOREIGN_KEYS[..] } else { &[] });
    let analyze = NAMES.iter().map(|name| format!("ANALYZE tpcc_{name}"));
    keys.map(|&key| key.to_owned()).chain(analyze).collect()
}

/// A row if the tables have that size.
pub(crate) fn probe(size: Size) -> String {
    let Size { warehouses, items, .. } = size;
    let customers = size.customers;
    format!(
        "SELECT 1 WHERE (SELECT count(*) FROM tpcc_warehouse) = {warehouses} \
         AND (SELECT max(i_id) FROM tpcc_item) = {items} \
         AND (SELECT max(c_id) FROM tpcc_customer WHERE c_w_id = {warehouses} AND c_d_id = {DISTRICTS}) = {customers}"
    )
}

/// Fills the tables.
pub(crate) async fn fill(size: Size, loader: &mut Loader<'_>) -> Result<(), Trouble> {
    let mut rules = Rules::new(size, fastrand::Rng::with_seed(1));
    let now = now_us();
    loader.copy("tpcc_item", 1..=size.items, |id, row| item(id, &mut rules, row)).await?;
    for warehouse in 1..=size.warehouses {
        loader
            .copy("tpcc_warehouse", [warehouse].into_iter(), |id, row| place(id, None, &mut rules, row))
            .await?;
        let districts = 1..=DISTRICTS;
        loader
            .copy("tpcc_district", districts, |id, row| place(id, Some(warehouse), &mut rules, row))
            .await?;
        loader.copy("tpcc_stock", 1..=size.items, |id, row| stock(id, warehouse, &mut rules, row)).await?;
        for district in 1..=DISTRICTS {
            let at = Place { warehouse, district, now };
            let customers = 1..=size.customers;
            loader
                .copy("tpcc_customer", customers.clone(), |id, row| customer(id, at, &mut rules, row))
                .await?;
            loader.copy("tpcc_history", customers, |id, row| history(id, at, &mut rules, row)).await?;
            orders(at, &mut rules, loader).await?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Place {
    warehouse: i32,
    district: i32,
    now: i64,
}

fn item(id: i32, rules: &mut Rules, row: &mut TextRow) {
    let image = rules.within(1, 10_000);
    let name = rules.text(14, 24);
    let price = Decimal::cents(rules.within(100, 10_000).into());
    row.put(id).put(image).put(name).put(price).put(rules.data());
}

/// Street, city, state and zip.
fn address(rules: &mut Rules, row: &mut TextRow) {
    row.put(rules.text(10, 20)).put(rules.text(10, 20)).put(rules.text(10, 20));
    let state: String = (0..2).map(|_| rules.chance.uppercase()).collect();
    row.put(state).put(digits(&mut rules.chance, 4) + "11111");
}

/// A warehouse, or a district of one. The payments of the loaded history are in their sums: 10.00 for each customer.
fn place(id: i32, of: Option<i32>, rules: &mut Rules, row: &mut TextRow) {
    row.put(id);
    if let Some(warehouse) = of {
        row.put(warehouse);
    }
    row.put(rules.text(6, 10));
    address(rules, row);
    let tax = Decimal::ten_thousandths(rules.within(0, 2000).into());
    let paid = Decimal::cents(1000).times(rules.size.customers.into());
    match of {
        None => row.put(tax).put(paid.times(DISTRICTS.into())),
        Some(_) => row.put(tax).put(paid).put(rules.size.customers + 1),
    };
}

fn stock(item: i32, warehouse: i32, rules: &mut Rules, row: &mut TextRow) {
    row.put(item).put(warehouse).put(rules.within(10, 100));
    (0..10).for_each(|_| {
        row.put(rules.text(24, 24));
    });
    row.put(0).put(0).put(0).put(rules.data());
}

fn customer(id: i32, at: Place, rules: &mut Rules, row: &mut TextRow) {
    row.put(id).put(at.district).put(at.warehouse);
    row.put(rules.text(8, 16)).put("OE").put(rules.loaded_name(id));
    address(rules, row);
    let credit = if rules.chance.u8(0..10) == 0 { "BC" } else { "GC" };
    row.put(digits(&mut rules.chance, 16)).put(TimeText(at.now)).put(credit);
    row.put("50000.00").put(Decimal::ten_thousandths(rules.within(0, 5000).into()));
    row.put("-10.00").put("10.00").put(1).put(0).put(rules.text(300, 500));
}

fn history(customer: i32, at: Place, rules: &mut Rules, row: &mut TextRow) {
    row.put(customer).put(at.district).put(at.warehouse).put(at.district).put(at.warehouse);
    row.put(TimeText(at.now)).put("10.00").put(rules.text(12, 24));
}

/// One order for each customer, in a random order; the last 30 % are not delivered.
async fn orders(at: Place, rules: &mut Rules, loader: &mut Loader<'_>) -> Result<(), Trouble> {
    let size = rules.size;
    let mut customers: Vec<i32> = (1..=size.customers).collect();
    rules.chance.shuffle(&mut customers);
    let lines: Vec<i32> = customers.iter().map(|_| rules.within(5, 15)).collect();
    let delivered = |order: i32| order < size.undelivered_from();
    let each = || (1..=size.customers).zip(&lines);
    let with_customers = each().zip(&customers);
    loader
        .copy("tpcc_orders", with_customers, |((order, lines), customer), row| {
            row.put(order).put(at.district).put(at.warehouse).put(customer).put(TimeText(at.now));
            row.put_or_null(delivered(order).then(|| rules.within(1, 10))).put(lines).put(1);
        })
        .await?;
    let all_lines = each().flat_map(|(order, &count)| (1..=count).map(move |number| (order, number)));
    loader
        .copy("tpcc_order_line", all_lines, |(order, number), row| {
            row.put(order).put(at.district).put(at.warehouse).put(number);
            row.put(rules.within(1, size.items)).put(at.warehouse);
            row.put_or_null(delivered(order).then_some(TimeText(at.now))).put(5);
            let cents = if delivered(order) { 0 } else { rules.within(1, 999_999) };
            row.put(Decimal::cents(cents.into())).put(rules.text(24, 24));
        })
        .await?;
    loader
        .copy("tpcc_new_order", size.undelivered_from()..=size.customers, |order, row| {
            row.put(order).put(at.district).put(at.warehouse);
        })
        .await
}
