//! New-Order (clause 2.4): enters an order of five to fifteen items. One in a hundred has an unused item as its last and
//! rolls back; one item in a hundred comes from another warehouse.

use super::need;
use super::rules::Rules;
use crate::workload::{Blocks, Ending, Touches};
use load_clients::session::{Session, Trouble};
use load_clients::value::{Decimal, Value};
use load_clients::values;

const CUSTOMER: &str =
    "SELECT c_discount, c_last, c_credit FROM tpcc_customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const WAREHOUSE: &str = "SELECT w_tax FROM tpcc_warehouse WHERE w_id = $1";
const DISTRICT: &str =
    "SELECT d_next_o_id, d_tax FROM tpcc_district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE";
const NEXT_ORDER: &str =
    "UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2";
const ORDER: &str = "INSERT INTO tpcc_orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const NEW_ORDER: &str = "INSERT INTO tpcc_new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)";
const ITEM: &str = "SELECT i_price, i_name, i_data FROM tpcc_item WHERE i_id = $1";
const TAKE: &str = "UPDATE tpcc_stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1, \
    s_remote_cnt = s_remote_cnt + $3 WHERE s_i_id = $4 AND s_w_id = $5";
const LINE: &str = "INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, \
    ol_quantity, ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

/// The stock's row, with the text for each of the ten districts in a statement of its own.
const STOCK: [&str; 10] = [
    "SELECT s_quantity, s_data, s_dist_01 FROM tpcc_stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_02 FROM tpcc_stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_03 FROM tpcc_stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_04 FROM tpcc_stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_05 FROM tpcc_stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_06 FROM tpcc_stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_07 FROM tpcc_stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_08 FROM tpcc_stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_09 FROM tpcc_stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_10 FROM tpcc_stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
];

/// The tables that it touches.
const TOUCHES: Touches = Touches {
    reads: "tpcc_warehouse, tpcc_customer, tpcc_item",
    writes: "tpcc_district, tpcc_orders, tpcc_new_order, tpcc_stock, tpcc_order_line",
};

/// Input of a terminal.
pub(crate) struct Input {
    warehouse: i32,
    district: i32,
    customer: i32,
    lines: Vec<Line>,
}

struct Line {
    item: i32,
    supply: i32,
    quantity: i32,
}

impl Input {
    pub(crate) fn new(warehouse: i32, rules: &mut Rules) -> Input {
        let (district, customer) = (rules.district(), rules.customer());
        let count = rules.within(5, 15);
        let mut lines: Vec<Line> = (0..count).map(|_| Line::new(warehouse, rules)).collect();
        let unused = rules.size.items + 1;
        if rules.within(1, 100) == 1
            && let Some(last) = lines.last_mut()
        {
            last.item = unused;
        }
        Input { warehouse, district, customer, lines }
    }
}

impl Line {
    fn new(home: i32, rules: &mut Rules) -> Line {
        let item = rules.item();
        let supply = if rules.within(1, 100) == 1 { rules.other_warehouse(home) } else { home };
        Line { item, supply, quantity: rules.within(1, 10) }
    }
}

/// Runs it.
pub(crate) async fn run(input: &Input, blocks: Blocks, session: &mut Session) -> Result<Ending, Trouble> {
    let Input { warehouse, district, customer, lines } = input;
    let (w, d, c) = (*warehouse, *district, *customer);
    blocks.begin(session, TOUCHES).await?;
    session.ask(CUSTOMER, values![w, d, c]).await?.first()?;
    session.ask(WAREHOUSE, values![w]).await?.first()?;
    let order = need(session.ask(DISTRICT, values![w, d]).await?.first()?.int(0))?;
    session.ask(NEXT_ORDER, values![w, d]).await?;
    let count = i32::try_from(lines.len()).expect("there are at most 15");
    let all_local = i32::from(lines.iter().all(|line| line.supply == w));
    session.ask(ORDER, values![order, d, w, c, Value::now(), count, all_local]).await?;
    session.ask(NEW_ORDER, values![order, d, w]).await?;
    for (number, line) in (1..).zip(lines) {
        let found = session.ask(ITEM, values![line.item]).await?;
        let Some(item) = found.rows.first() else {
            session.execute("ROLLBACK").await?;
            return Ok(Ending::RolledBack);
        };
        let amount = need(item.decimal(0))?.times(line.quantity.into());
        enter(input, order, number, line, amount, session).await?;
    }
    blocks.commit(session).await
}

/// Takes a line's items from the stock, which is filled up by 91 when fewer than ten would be left, and writes the line.
async fn enter(
    input: &Input,
    order: i32,
    number: i32,
    line: &Line,
    amount: Decimal,
    session: &mut Session,
) -> Result<(), Trouble> {
    let (w, d) = (input.warehouse, input.district);
    let stock = STOCK[usize::try_from(d - 1).expect("districts count from 1")];
    let found = session.ask(stock, values![line.item, line.supply]).await?;
    let row = found.first()?;
    let (quantity, info) = (need(row.int(0))?, need(row.text(2))?);
    let left = quantity - line.quantity;
    let left = if left >= 10 { left } else { left + 91 };
    let remote = i32::from(line.supply != w);
    session.ask(TAKE, values![left, line.quantity, remote, line.item, line.supply]).await?;
    let values = values![order, d, w, number, line.item, line.supply, line.quantity, amount, info];
    session.ask(LINE, values).await?;
    Ok(())
}
