//! The interactions of the shop's keepers (clauses 2.15 and 2.16): admin request, admin confirm.

use super::{Page, need};
use load_clients::session::Trouble;
use load_clients::value::{Decimal, Value};
use load_clients::values;

const BOOK: &str = "SELECT i_id, i_title, i_image, i_thumbnail, i_cost, i_srp, i_subject, a_fname, a_lname \
    FROM tpcw_item, tpcw_author WHERE i_a_id = a_id AND i_id = $1";
const CHANGE: &str =
    "UPDATE tpcw_item SET i_cost = $1, i_image = $2, i_thumbnail = $3, i_pub_date = $4 WHERE i_id = $5";
const BOUGHT_TOO: &str = "SELECT ol_i_id, sum(ol_qty) AS sold FROM tpcw_orders, tpcw_order_line WHERE o_id = ol_o_id \
    AND ol_i_id <> $1 AND o_c_id IN (SELECT o_c_id FROM tpcw_orders, tpcw_order_line WHERE o_id = ol_o_id \
    AND o_id > (SELECT max(o_id) - 10000 FROM tpcw_orders) AND ol_i_id = $1) \
    GROUP BY ol_i_id ORDER BY sold DESC, ol_i_id LIMIT 5";
const RELATE: &str = "UPDATE tpcw_item SET i_related1 = $1, i_related2 = $2, i_related3 = $3, i_related4 = $4, \
    i_related5 = $5 WHERE i_id = $6";

impl Page<'_> {
    /// A book, to be changed.
    pub(super) async fn admin_request(&mut self) -> Result<(), Trouble> {
        let item = self.rules.item();
        self.session.ask(BOOK, values![item]).await?.first().map(drop)
    }

    /// Its price, its pictures and its date are new; related to it are the books that its buyers have bought too.
    pub(super) async fn admin_confirm(&mut self) -> Result<(), Trouble> {
        let item = self.rules.item();
        let price = Decimal::cents(self.rules.within(100, 99_999).into());
        let number = self.rules.within(1, 1000);
        let (image, thumbnail) =
            (format!("img{number}/image_{item}.gif"), format!("img{number}/thumb_{item}.gif"));
        self.session.ask(BOOK, values![item]).await?.first()?;
        self.session.ask(CHANGE, values![price, image, thumbnail, Value::now(), item]).await?;
        let found = self.session.ask(BOUGHT_TOO, values![item]).await?;
        let mut related = Vec::with_capacity(6);
        for row in &found.rows {
            related.push(Value::from(need(row.int(0))?));
        }
        while related.len() < 5 {
            related.push(Value::from(self.rules.item()));
        }
        related.push(Value::from(item));
        self.session.ask(RELATE, &related).await.map(drop)
    }
}
