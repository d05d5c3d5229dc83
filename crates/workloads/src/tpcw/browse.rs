//! The six interactions that look at books (clauses 2.3 and 2.7 to 2.12): home, new products, best sellers, product detail,
//! search request, search results.

use super::Page;
use load_clients::session::Trouble;
use load_clients::values;

const CUSTOMER: &str = "SELECT c_fname, c_lname FROM tpcw_customer WHERE c_id = $1";
const PROMOTED: &str = "SELECT j.i_id, j.i_thumbnail FROM tpcw_item i, tpcw_item j WHERE (i.i_related1 = j.i_id \
    OR i.i_related2 = j.i_id OR i.i_related3 = j.i_id OR i.i_related4 = j.i_id OR i.i_related5 = j.i_id) \
    AND i.i_id = $1";
const NEW_PRODUCTS: &str = "SELECT i_id, i_title, a_fname, a_lname FROM tpcw_item, tpcw_author WHERE i_a_id = a_id \
    AND i_subject = $1 ORDER BY i_pub_date DESC, i_title LIMIT 50";
const BEST_SELLERS: &str = "SELECT i_id, i_title, a_fname, a_lname, sum(ol_qty) AS sold \
    FROM tpcw_item, tpcw_author, tpcw_order_line WHERE i_id = ol_i_id AND i_a_id = a_id \
    AND ol_o_id > (SELECT max(o_id) - 3333 FROM tpcw_orders) AND i_subject = $1 \
    GROUP BY i_id, i_title, a_fname, a_lname ORDER BY sold DESC LIMIT 50";
const DETAIL: &str = "SELECT i_title, a_fname, a_lname, i_pub_date, i_publisher, i_subject, i_desc, i_image, i_cost, \
    i_srp, i_avail, i_isbn, i_page, i_backing, i_dimensions FROM tpcw_item, tpcw_author \
    WHERE i_a_id = a_id AND i_id = $1";
const BY_AUTHOR: &str = "SELECT i_id, i_title, a_fname, a_lname FROM tpcw_item, tpcw_author WHERE i_a_id = a_id \
    AND a_lname LIKE $1 ORDER BY i_title LIMIT 50";
const BY_TITLE: &str = "SELECT i_id, i_title, a_fname, a_lname FROM tpcw_item, tpcw_author WHERE i_a_id = a_id \
    AND i_title LIKE $1 ORDER BY i_title LIMIT 50";
const BY_SUBJECT: &str = "SELECT i_id, i_title, a_fname, a_lname FROM tpcw_item, tpcw_author WHERE i_a_id = a_id \
    AND i_subject = $1 ORDER BY i_title LIMIT 50";

impl Page<'_> {
    /// The customer's name and five books.
    pub(super) async fn home(&mut self) -> Result<(), Trouble> {
        self.session.ask(CUSTOMER, values![self.browser.customer]).await?.first()?;
        self.promoted().await
    }

    pub(super) async fn new_products(&mut self) -> Result<(), Trouble> {
        let subject = self.rules.subject();
        self.promoted().await?;
        self.session.ask(NEW_PRODUCTS, values![subject]).await.map(drop)
    }

    pub(super) async fn best_sellers(&mut self) -> Result<(), Trouble> {
        let subject = self.rules.subject();
        self.promoted().await?;
        self.session.ask(BEST_SELLERS, values![subject]).await.map(drop)
    }

    pub(super) async fn product_detail(&mut self) -> Result<(), Trouble> {
        let item = self.rules.item();
        self.session.ask(DETAIL, values![item]).await?.first().map(drop)
    }

    pub(super) async fn search_request(&mut self) -> Result<(), Trouble> {
        self.promoted().await
    }

    /// By author, title or subject, as often each.
    pub(super) async fn search_results(&mut self) -> Result<(), Trouble> {
        let (statement, words) = match self.rules.within(0, 2) {
            0 => (BY_AUTHOR, self.rules.searched()),
            1 => (BY_TITLE, self.rules.searched()),
            _ => (BY_SUBJECT, self.rules.subject().to_owned()),
        };
        self.promoted().await?;
        self.session.ask(statement, values![words]).await.map(drop)
    }

    /// The five books that a page advertises.
    async fn promoted(&mut self) -> Result<(), Trouble> {
        let item = self.rules.item();
        self.session.ask(PROMOTED, values![item]).await?.first().map(drop)
    }
}
