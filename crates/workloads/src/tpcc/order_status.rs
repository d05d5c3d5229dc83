//! Order-Status (clause 2.6): what became of a customer's last order. It only reads.

use super::need;
use super::payment::middle;
use super::rules::{Rules, Who};
use crate::workload::{Blocks, Ending};
use load_clients::session::{Session, Trouble};
use load_clients::values;

const BY_NUMBER: &str = "SELECT c_id, c_balance, c_first, c_middle, c_last FROM tpcc_customer \
    WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const BY_NAME: &str = "SELECT c_id, c_balance, c_first, c_middle, c_last FROM tpcc_customer \
    WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first";
const LAST_ORDER: &str = "SELECT o_id, o_entry_d, o_carrier_id FROM tpcc_orders \
    WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1";
const LINES: &str = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM tpcc_order_line \
    WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";

/// Input of a terminal.
pub(crate) struct Input {
    warehouse: i32,
    district: i32,
    who: Who,
}

impl Input {
    pub(crate) fn new(warehouse: i32, rules: &mut Rules) -> Input {
        Input { warehouse, district: rules.district(), who: rules.who() }
    }
}

/// Runs it.
pub(crate) async fn run(input: &Input, blocks: Blocks, session: &mut Session) -> Result<Ending, Trouble> {
    let (w, d) = (input.warehouse, input.district);
    blocks.begin_reading(session).await?;
    let found = match &input.who {
        Who::Number(number) => session.ask(BY_NUMBER, values![w, d, *number]).await?,
        Who::LastName(name) => session.ask(BY_NAME, values![w, d, name]).await?,
    };
    let customer = need(middle(&found.rows)?.int(0))?;
    let order = need(session.ask(LAST_ORDER, values![w, d, customer]).await?.first()?.int(0))?;
    session.ask(LINES, values![w, d, order]).await?.first()?;
    blocks.commit_reading(session).await
}
