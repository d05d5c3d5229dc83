//! The interactions that look at orders (clauses 2.13 and 2.14): order inquiry, order display.

use super::{Page, need};
use load_clients::session::Trouble;
use load_clients::values;

const USER: &str = "SELECT c_uname FROM tpcw_customer WHERE c_id = $1";
const PASSWORD: &str = "SELECT c_passwd FROM tpcw_customer WHERE c_uname = $1";
const NEWEST: &str = "SELECT o_id FROM tpcw_customer, tpcw_orders WHERE c_id = o_c_id AND c_uname = $1 \
    ORDER BY o_date DESC, o_id DESC LIMIT 1";
const ORDER: &str = "SELECT o_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, o_status, c_fname, \
    c_lname, c_phone, c_email, cx_type, b.addr_street1, b.addr_city, b.addr_zip, bc.co_name, s.addr_street1, s.addr_city, \
    s.addr_zip, sc.co_name FROM tpcw_orders, tpcw_customer, tpcw_cc_xacts, tpcw_address b, tpcw_country bc, \
    tpcw_address s, tpcw_country sc WHERE o_id = $1 AND cx_o_id = o_id AND c_id = o_c_id AND b.addr_id = o_bill_addr_id \
    AND bc.co_id = b.addr_co_id AND s.addr_id = o_ship_addr_id AND sc.co_id = s.addr_co_id";
const LINES: &str = "SELECT ol_i_id, i_title, i_publisher, i_cost, ol_qty, ol_discount, ol_comments \
    FROM tpcw_order_line, tpcw_item WHERE ol_o_id = $1 AND ol_i_id = i_id";

impl Page<'_> {
    /// The page on which a customer asks for an order.
    pub(super) async fn order_inquiry(&mut self) -> Result<(), Trouble> {
        self.session.ask(USER, values![self.browser.customer]).await?.first().map(drop)
    }

    /// The customer's newest order, if there is one. The order has its payment and its lines.
    pub(super) async fn order_display(&mut self) -> Result<(), Trouble> {
        self.session.ask(PASSWORD, values![&self.browser.user]).await?.first()?;
        let newest = self.session.ask(NEWEST, values![&self.browser.user]).await?;
        let Some(row) = newest.rows.first() else { return Ok(()) };
        let order = need(row.int(0))?;
        self.session.ask(ORDER, values![order]).await?.first()?;
        self.session.ask(LINES, values![order]).await?.first().map(drop)
    }
}
