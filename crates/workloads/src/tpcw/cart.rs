//! The interactions on the way to an order (clauses 2.4 to 2.6): shopping cart, customer registration, buy request.

use super::{Page, need};
use load_clients::chance::digits;
use load_clients::session::Trouble;
use load_clients::value::{Decimal, Value, now_us};
use load_clients::values;

const NEW_CART: &str = "INSERT INTO tpcw_shopping_cart (sc_time) VALUES ($1) RETURNING sc_id";
const QUANTITY: &str = "SELECT scl_qty FROM tpcw_shopping_cart_line WHERE scl_sc_id = $1 AND scl_i_id = $2";
const SET_QUANTITY: &str =
    "UPDATE tpcw_shopping_cart_line SET scl_qty = $1 WHERE scl_sc_id = $2 AND scl_i_id = $3";
const ADD: &str = "INSERT INTO tpcw_shopping_cart_line (scl_sc_id, scl_i_id, scl_qty) VALUES ($1, $2, $3)";
const REMOVE: &str = "DELETE FROM tpcw_shopping_cart_line WHERE scl_sc_id = $1 AND scl_i_id = $2";
const TOUCH: &str = "UPDATE tpcw_shopping_cart SET sc_time = $1 WHERE sc_id = $2";
const CART: &str = "SELECT scl_i_id, scl_qty, i_cost, i_title, i_srp, i_backing FROM tpcw_shopping_cart_line, tpcw_item \
    WHERE scl_i_id = i_id AND scl_sc_id = $1 ORDER BY scl_i_id";
const USER: &str = "SELECT c_uname FROM tpcw_customer WHERE c_id = $1";
const CUSTOMER: &str = "SELECT c_id, c_passwd, c_fname, c_lname, c_phone, c_email, c_data, c_discount, addr_street1, \
    addr_street2, addr_city, addr_state, addr_zip, co_name FROM tpcw_customer, tpcw_address, tpcw_country \
    WHERE c_uname = $1 AND c_addr_id = addr_id AND addr_co_id = co_id";
const LOG_IN: &str = "UPDATE tpcw_customer SET c_login = $1, c_expiration = $2 WHERE c_id = $3";
const COUNTRY: &str = "SELECT co_id FROM tpcw_country WHERE co_name = $1";
const FIND_ADDRESS: &str =
    "SELECT addr_id FROM tpcw_address WHERE addr_id = $1 AND addr_street1 = $2 AND addr_co_id = $3";
const NEW_ADDRESS: &str = "INSERT INTO tpcw_address (addr_street1, addr_street2, addr_city, addr_state, addr_zip, \
    addr_co_id) VALUES ($1, $2, $3, $4, $5, $6) RETURNING addr_id";
const NEW_CUSTOMER: &str = "INSERT INTO tpcw_customer (c_uname, c_passwd, c_fname, c_lname, c_addr_id, c_phone, c_email, \
    c_since, c_last_login, c_login, c_expiration, c_discount, c_balance, c_ytd_pmt, c_birthdate, c_data) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $8, $9, $10, 0, 0, $8, $11) RETURNING c_id";

/// Time for which a log-in holds.
const TWO_HOURS_US: i64 = 7_200_000_000;

/// A cart has at most so many different books, and one book at most so often: what the stock's rule can stand.
const MOST_BOOKS: usize = 100;
const MOST_OF_ONE: i32 = 10;

/// A line of a cart.
#[derive(Clone, Copy, Debug)]
pub(super) struct InCart {
    pub(super) item: i32,
    pub(super) quantity: i32,
    pub(super) price: Decimal,
}

impl Page<'_> {
    /// Adds a book, or changes how many there are of each; then shows the cart.
    pub(super) async fn shopping_cart(&mut self) -> Result<(), Trouble> {
        let lines = self.cart().await?;
        if lines.len() < MOST_BOOKS && (lines.is_empty() || self.rules.chance.bool()) {
            let item = self.rules.item();
            self.add(item).await?;
        } else {
            for line in &lines {
                self.change(line.item).await?;
            }
        }
        if self.cart().await?.is_empty() {
            let item = self.rules.item();
            self.add(item).await?;
        }
        let cart = need(self.browser.cart)?;
        self.session.ask(TOUCH, values![Value::now(), cart]).await?;
        self.cart().await.map(drop)
    }

    /// The page on which a customer registers or logs in.
    pub(super) async fn registration(&mut self) -> Result<(), Trouble> {
        self.session.ask(USER, values![self.browser.customer]).await?.first().map(drop)
    }

    /// The customer logs in, or is a new one in a fifth of all cases, and sees the content of the cart.
    pub(super) async fn buy_request(&mut self) -> Result<(), Trouble> {
        if self.rules.within(1, 100) <= 80 {
            let now = now_us();
            let times = values![Value::Time(now), Value::Time(now + TWO_HOURS_US), self.browser.customer];
            self.session.ask(LOG_IN, times).await?;
        } else {
            self.new_customer().await?;
        }
        self.session.ask(CUSTOMER, values![&self.browser.user]).await?.first()?;
        self.filled_cart().await.map(drop)
    }

    /// The lines of the cart; one book is put into it if it is empty.
    pub(super) async fn filled_cart(&mut self) -> Result<Vec<InCart>, Trouble> {
        let lines = self.cart().await?;
        if !lines.is_empty() {
            return Ok(lines);
        }
        let item = self.rules.item();
        self.add(item).await?;
        self.cart().await
    }

    async fn cart(&mut self) -> Result<Vec<InCart>, Trouble> {
        let Some(cart) = self.browser.cart else { return Ok(Vec::new()) };
        let answer = self.session.ask(CART, values![cart]).await?;
        let lines = answer.rows.iter().map(|row| {
            let (item, quantity) = (need(row.int(0))?, need(row.int(1))?);
            Ok(InCart { item, quantity, price: need(row.decimal(2))? })
        });
        lines.collect()
    }

    /// One more of a book.
    async fn add(&mut self, item: i32) -> Result<(), Trouble> {
        let cart = match self.browser.cart {
            Some(cart) => cart,
            None => need(self.session.ask(NEW_CART, values![Value::now()]).await?.first()?.int(0))?,
        };
        self.browser.cart = Some(cart);
        let found = self.session.ask(QUANTITY, values![cart, item]).await?;
        match found.rows.first() {
            Some(row) => {
                let quantity = (need(row.int(0))? + 1).min(MOST_OF_ONE);
                self.session.ask(SET_QUANTITY, values![quantity, cart, item]).await.map(drop)
            }
            None => self.session.ask(ADD, values![cart, item, 1]).await.map(drop),
        }
    }

    /// Another number of a book, or none.
    async fn change(&mut self, item: i32) -> Result<(), Trouble> {
        let cart = need(self.browser.cart)?;
        match self.rules.within(0, MOST_OF_ONE) {
            0 => self.session.ask(REMOVE, values![cart, item]).await.map(drop),
            quantity => self.session.ask(SET_QUANTITY, values![quantity, cart, item]).await.map(drop),
        }
    }

    async fn new_customer(&mut self) -> Result<(), Trouble> {
        let address = self.address().await?;
        let rules = &mut self.rules;
        let user = rules.text(20, 20);
        let (first, last, phone) = (rules.text(8, 15), rules.text(8, 15), digits(&mut rules.chance, 12));
        let (discount, data, now) = (rules.within(0, 50), rules.text(100, 500), now_us());
        let email = format!("{user}@example.com");
        let (since, until) = (Value::Time(now), Value::Time(now + TWO_HOURS_US));
        let row = values![
            &user,
            user.to_lowercase(),
            first,
            last,
            address,
            phone,
            email,
            since,
            until,
            discount,
            data
        ];
        self.browser.customer = need(self.session.ask(NEW_CUSTOMER, row).await?.first()?.int(0))?;
        self.browser.user = user;
        Ok(())
    }

    /// An address that a customer types: it may be there already.
    pub(super) async fn address(&mut self) -> Result<i32, Trouble> {
        let rules = &mut self.rules;
        let country = super::load::country(rules.within(1, super::load::COUNTRIES));
        let known = rules.within(1, rules.size.addresses());
        let (street, second, city) = (rules.text(15, 40), rules.text(15, 40), rules.text(4, 30));
        let (state, zip) = (rules.text(2, 20), rules.text(5, 10));
        let country = need(self.session.ask(COUNTRY, values![country]).await?.first()?.int(0))?;
        let found = self.session.ask(FIND_ADDRESS, values![known, &street, country]).await?;
        if let Some(row) = found.rows.first() {
            return need(row.int(0));
        }
        let row = values![street, second, city, state, zip, country];
        need(self.session.ask(NEW_ADDRESS, row).await?.first()?.int(0))
    }
}
