//! Stock-Level (clause 2.8): how many items of a district's last twenty orders are short. It only reads.

use super::need;
use super::rules::Rules;
use crate::workload::{Blocks, Ending};
use load_clients::session::{Session, Trouble};
use load_clients::values;

const NEXT_ORDER: &str = "SELECT d_next_o_id FROM tpcc_district WHERE d_w_id = $1 AND d_id = $2";
const SHORT: &str = "SELECT count(DISTINCT s_i_id) FROM tpcc_order_line, tpcc_stock WHERE ol_w_id = $1 AND ol_d_id = $2 \
    AND ol_o_id < $3 AND ol_o_id >= $4 AND s_w_id = $5 AND s_i_id = ol_i_id AND s_quantity < $6";

/// Input of a terminal.
pub(crate) struct Input {
    warehouse: i32,
    district: i32,
    threshold: i32,
}

impl Input {
    pub(crate) fn new(warehouse: i32, rules: &mut Rules) -> Input {
        Input { warehouse, district: rules.district(), threshold: rules.within(10, 20) }
    }
}

/// Runs it.
pub(crate) async fn run(input: &Input, blocks: Blocks, session: &mut Session) -> Result<Ending, Trouble> {
    let (w, d) = (input.warehouse, input.district);
    blocks.begin_reading(session).await?;
    let next = need(session.ask(NEXT_ORDER, values![w, d]).await?.first()?.int(0))?;
    let short = session.ask(SHORT, values![w, d, next, next - 20, w, input.threshold]).await?;
    need(short.first()?.number(0))?;
    blocks.commit_reading(session).await
}
