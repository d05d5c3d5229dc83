//! `consort bench tpcw`: TPC-W 1.8 at the level of SQL: a bookshop's eight tables, the fourteen web interactions with the
//! statements that their pages need, the three mixes, and emulated browsers that think.
//!
//! A browser chooses its next interaction by the mix's weights, not by the specification's transition tables: in the long run
//! the shares are the same. An order needs a cart: a browser that has none fills one on the way. Each interaction is one
//! transaction.

mod admin;
mod browse;
mod buy;
mod cart;
mod checks;
mod load;
mod money;
mod order;
mod report;
mod rules;

pub use report::{Mix, Options, measure, run};

use crate::workload::{Blocks, Check, Ending, Ledger, Loader, Touches, Workload, weighted};
use load_clients::session::{Session, Trouble};
use rules::{Rules, Size};

/// Average think time of a browser (5.3.1).
const THINK_SECONDS: f64 = 7.0;

/// One home page in so many begins a new visit, of another customer.
const VISIT: u8 = 10;

const BUY_CONFIRM: usize = 9;

/// The tables of the interactions that write: shopping-cart, buy-request, buy-confirm, admin-confirm. The others only read.
fn writing(kind: usize) -> Option<Touches> {
    match kind {
        6 => Some(Touches {
            reads: "tpcw_item",
            writes: "tpcw_shopping_cart, tpcw_shopping_cart_line, tpcw_shopping_cart_sc_id_seq",
        }),
        8 => Some(Touches {
            reads: "tpcw_country, tpcw_item",
            writes: "tpcw_customer, tpcw_address, tpcw_shopping_cart, tpcw_shopping_cart_line, \
                     tpcw_shopping_cart_sc_id_seq",
        }),
        BUY_CONFIRM => Some(Touches {
            reads: "tpcw_customer, tpcw_country",
            writes: "tpcw_orders, tpcw_order_line, tpcw_cc_xacts, tpcw_item, tpcw_address, tpcw_shopping_cart, \
                     tpcw_shopping_cart_line, tpcw_shopping_cart_sc_id_seq",
        }),
        13 => Some(Touches { reads: "tpcw_orders, tpcw_order_line, tpcw_author", writes: "tpcw_item" }),
        _ => None,
    }
}

/// TPC-W of a size, in a mix.
struct Tpcw {
    size: Size,
    mix: Mix,
    blocks: Blocks,
    orders_before: u64,
}

/// State of a browser.
#[derive(Clone)]
struct Client {
    chance: fastrand::Rng,
    /// The customer's number.
    customer: i32,
    /// The name of its log-in.
    user: String,
    /// Its cart, if it has one.
    cart: Option<i32>,
}

/// An interaction, and what its inputs are drawn from.
struct Work {
    kind: usize,
    seed: u64,
}

/// A page that is asked for: the browser, its random numbers, and the connection.
struct Page<'a> {
    rules: Rules,
    browser: &'a mut Client,
    session: &'a mut Session,
}

impl Workload for Tpcw {
    type Client = Client;
    type Work = Work;

    fn name(&self) -> &'static str {
        "tpcw"
    }

    fn describe(&self) -> String {
        format!("TPC-W {}, {} books, {} customers", self.mix.name(), self.size.items, self.size.customers)
    }

    fn transactions(&self) -> &'static [&'static str] {
        &[
            "home",
            "new-products",
            "best-sellers",
            "product-detail",
            "search-request",
            "search-results",
            "shopping-cart",
            "registration",
            "buy-request",
            "buy-confirm",
            "order-inquiry",
            "order-display",
            "admin-request",
            "admin-confirm",
        ]
    }

    fn tables(&self) -> String {
        load::tables()
    }

    async fn fill(&self, loader: &mut Loader<'_>) -> Result<(), Trouble> {
        load::fill(self.size, loader).await
    }

    fn finish(&self) -> Vec<String> {
        load::finish()
    }

    fn probe(&self) -> String {
        load::probe(self.size)
    }

    async fn look(&mut self, session: &mut Session) -> Result<(), Trouble> {
        let found = session.ask("SELECT count(*) FROM tpcw_orders", &[]).await?;
        self.orders_before = found.first()?.number(0).unwrap_or(0).unsigned_abs();
        Ok(())
    }

    fn think_seconds(&self) -> f64 {
        THINK_SECONDS
    }

    fn client(&self, _: u64, chance: fastrand::Rng) -> Client {
        let mut client = Client { chance, customer: 1, user: String::new(), cart: None };
        client.begin_visit(self.size);
        client
    }

    fn plan(&self, client: &mut Client) -> Work {
        let kind = weighted(&self.mix.weights(), &mut client.chance);
        if kind == 0 && client.chance.u8(0..VISIT) == 0 {
            client.begin_visit(self.size);
        }
        Work { kind, seed: client.chance.u64(..) }
    }

    fn kind(&self, work: &Work) -> usize {
        work.kind
    }

    async fn run(&self, browser: &mut Client, work: &Work, session: &mut Session) -> Result<Ending, Trouble> {
        let rules = Rules::new(self.size, fastrand::Rng::with_seed(work.seed));
        let writes = writing(work.kind);
        match writes {
            Some(touches) => self.blocks.begin(session, touches).await?,
            None => self.blocks.begin_reading(session).await?,
        }
        // The effects of a page count only once it is committed.
        let mut after = browser.clone();
        let mut page = Page { rules, browser: &mut after, session };
        page.ask(work.kind).await?;
        let ending = if writes.is_some() {
            self.blocks.commit(session).await?
        } else {
            self.blocks.commit_reading(session).await?
        };
        *browser = after;
        Ok(ending)
    }

    fn checks(&self, ledger: &Ledger) -> Vec<Check> {
        let (least, most) = ledger.bounds(BUY_CONFIRM);
        checks::all(self.size, (self.orders_before + least, self.orders_before + most))
    }
}

impl Client {
    /// Another customer comes, with an empty cart.
    fn begin_visit(&mut self, size: Size) {
        let mut rules = Rules::new(size, self.chance.fork());
        self.customer = rules.customer();
        self.user = rules::user_name(self.customer);
        self.cart = None;
    }
}

impl Page<'_> {
    /// Runs the interaction with that number.
    async fn ask(&mut self, kind: usize) -> Result<(), Trouble> {
        match kind {
            0 => self.home().await,
            1 => self.new_products().await,
            2 => self.best_sellers().await,
            3 => self.product_detail().await,
            4 => self.search_request().await,
            5 => self.search_results().await,
            6 => self.shopping_cart().await,
            7 => self.registration().await,
            8 => self.buy_request().await,
            BUY_CONFIRM => self.buy_confirm().await,
            10 => self.order_inquiry().await,
            11 => self.order_display().await,
            12 => self.admin_request().await,
            _ => self.admin_confirm().await,
        }
    }
}

/// A column that must be there, of the type that was asked for.
fn need<T>(value: Option<T>) -> Result<T, Trouble> {
    value.ok_or_else(|| Trouble::Unexpected("a column is NULL or of another type".to_owned()))
}
