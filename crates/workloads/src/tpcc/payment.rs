//! Payment (clause 2.5): a customer pays, at another warehouse than its own in 15 of 100.

use super::need;
use super::rules::{Rules, Who};
use crate::workload::{Blocks, Ending, Touches};
use load_clients::session::{Session, Trouble};
use load_clients::value::{Decimal, Fields, Value};
use load_clients::values;

const PAY_WAREHOUSE: &str = "UPDATE tpcc_warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2";
const WAREHOUSE: &str =
    "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM tpcc_warehouse WHERE w_id = $1";
const PAY_DISTRICT: &str = "UPDATE tpcc_district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3";
const DISTRICT: &str = "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM tpcc_district \
    WHERE d_w_id = $1 AND d_id = $2";
const BY_NUMBER: &str = "SELECT c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, \
    c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance FROM tpcc_customer \
    WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const BY_NAME: &str = "SELECT c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, \
    c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance FROM tpcc_customer \
    WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first";
const CREDIT: usize = 11;
const DATA: &str =
    "SELECT c_data FROM tpcc_customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE";
const PAY: &str = "UPDATE tpcc_customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
    c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4";
const PAY_WITH_DATA: &str = "UPDATE tpcc_customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
    c_payment_cnt = c_payment_cnt + 1, c_data = $2 WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5";
const HISTORY: &str = "INSERT INTO tpcc_history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

/// The tables that it touches.
const TOUCHES: Touches =
    Touches { reads: "", writes: "tpcc_warehouse, tpcc_district, tpcc_customer, tpcc_history" };

/// Input of a terminal.
pub(crate) struct Input {
    warehouse: i32,
    district: i32,
    customer_warehouse: i32,
    customer_district: i32,
    who: Who,
    amount: Decimal,
}

impl Input {
    pub(crate) fn new(warehouse: i32, rules: &mut Rules) -> Input {
        let district = rules.district();
        let (customer_warehouse, customer_district) = if rules.within(1, 100) <= 85 {
            (warehouse, district)
        } else {
            (rules.other_warehouse(warehouse), rules.district())
        };
        let amount = Decimal::cents(rules.within(100, 500_000).into());
        Input { warehouse, district, customer_warehouse, customer_district, who: rules.who(), amount }
    }
}

/// Runs it.
pub(crate) async fn run(input: &Input, blocks: Blocks, session: &mut Session) -> Result<Ending, Trouble> {
    let (w, d, amount) = (input.warehouse, input.district, input.amount);
    let (cw, cd) = (input.customer_warehouse, input.customer_district);
    blocks.begin(session, TOUCHES).await?;
    session.ask(PAY_WAREHOUSE, values![amount, w]).await?;
    let found = session.ask(WAREHOUSE, values![w]).await?;
    let warehouse_name = need(found.first()?.text(0))?.to_owned();
    session.ask(PAY_DISTRICT, values![amount, w, d]).await?;
    let found = session.ask(DISTRICT, values![w, d]).await?;
    let data = format!("{warehouse_name}    {}", need(found.first()?.text(0))?);
    let customer = customer(cw, cd, &input.who, session).await?;
    let c = need(customer.int(0))?;
    if need(customer.text(CREDIT))? == "BC" {
        let found = session.ask(DATA, values![cw, cd, c]).await?;
        let mut text = format!("{c} {cd} {cw} {d} {w} {amount} {}", need(found.first()?.text(0))?);
        text.truncate(500);
        session.ask(PAY_WITH_DATA, values![amount, text, cw, cd, c]).await?;
    } else {
        session.ask(PAY, values![amount, cw, cd, c]).await?;
    }
    session.ask(HISTORY, values![c, cd, cw, d, w, Value::now(), amount, data]).await?;
    blocks.commit(session).await
}

/// The customer of that number, or the one in the middle, rounded up, of those with that name by first name.
async fn customer(
    warehouse: i32,
    district: i32,
    who: &Who,
    session: &mut Session,
) -> Result<Fields, Trouble> {
    let answer = match who {
        Who::Number(number) => session.ask(BY_NUMBER, values![warehouse, district, *number]).await?,
        Who::LastName(name) => session.ask(BY_NAME, values![warehouse, district, name]).await?,
    };
    middle(&answer.rows)
}

/// The row in the middle, rounded up.
pub(crate) fn middle(rows: &[Fields]) -> Result<Fields, Trouble> {
    let middle = rows.len().div_ceil(2).checked_sub(1).and_then(|at| rows.get(at));
    middle.cloned().ok_or_else(|| Trouble::Unexpected("no such customer".to_owned()))
}
