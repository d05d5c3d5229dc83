//! Delivery (clause 2.7): delivers the oldest order of each district that is not delivered, all ten in one transaction.

use super::need;
use super::rules::{DISTRICTS, Rules};
use crate::workload::{Blocks, Ending, Touches};
use load_clients::session::{Session, Trouble};
use load_clients::value::Value;
use load_clients::values;

const OLDEST: &str =
    "SELECT no_o_id FROM tpcc_new_order WHERE no_d_id = $1 AND no_w_id = $2 ORDER BY no_o_id LIMIT 1";
const TAKE: &str = "DELETE FROM tpcc_new_order WHERE no_o_id = $1 AND no_d_id = $2 AND no_w_id = $3";
const CUSTOMER: &str = "SELECT o_c_id FROM tpcc_orders WHERE o_id = $1 AND o_d_id = $2 AND o_w_id = $3";
const CARRIER: &str =
    "UPDATE tpcc_orders SET o_carrier_id = $1 WHERE o_id = $2 AND o_d_id = $3 AND o_w_id = $4";
const DATES: &str =
    "UPDATE tpcc_order_line SET ol_delivery_d = $1 WHERE ol_o_id = $2 AND ol_d_id = $3 AND ol_w_id = $4";
const SUM: &str =
    "SELECT sum(ol_amount) FROM tpcc_order_line WHERE ol_o_id = $1 AND ol_d_id = $2 AND ol_w_id = $3";
const BALANCE: &str = "UPDATE tpcc_customer SET c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1 \
    WHERE c_id = $2 AND c_d_id = $3 AND c_w_id = $4";

/// The tables that it touches.
const TOUCHES: Touches =
    Touches { reads: "", writes: "tpcc_new_order, tpcc_orders, tpcc_order_line, tpcc_customer" };

/// Input of a terminal.
pub(crate) struct Input {
    warehouse: i32,
    carrier: i32,
}

impl Input {
    pub(crate) fn new(warehouse: i32, rules: &mut Rules) -> Input {
        Input { warehouse, carrier: rules.within(1, 10) }
    }
}

/// Runs it.
pub(crate) async fn run(input: &Input, blocks: Blocks, session: &mut Session) -> Result<Ending, Trouble> {
    blocks.begin(session, TOUCHES).await?;
    for district in 1..=DISTRICTS {
        if let Some(order) = take(input.warehouse, district, session).await? {
            deliver(input, district, order, session).await?;
        }
    }
    blocks.commit(session).await
}

/// Takes the oldest order off the list. If another delivery has taken it meanwhile, the next.
async fn take(warehouse: i32, district: i32, session: &mut Session) -> Result<Option<i32>, Trouble> {
    loop {
        let found = session.ask(OLDEST, values![district, warehouse]).await?;
        let Some(row) = found.rows.first() else { return Ok(None) };
        let order = need(row.int(0))?;
        if session.ask(TAKE, values![order, district, warehouse]).await?.affected == 1 {
            return Ok(Some(order));
        }
    }
}

async fn deliver(input: &Input, d: i32, order: i32, session: &mut Session) -> Result<(), Trouble> {
    let w = input.warehouse;
    let customer = need(session.ask(CUSTOMER, values![order, d, w]).await?.first()?.int(0))?;
    session.ask(CARRIER, values![input.carrier, order, d, w]).await?;
    session.ask(DATES, values![Value::now(), order, d, w]).await?;
    let amount = need(session.ask(SUM, values![order, d, w]).await?.first()?.decimal(0))?;
    session.ask(BALANCE, values![amount, customer, d, w]).await?;
    Ok(())
}
