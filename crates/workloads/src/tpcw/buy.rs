//! Buy confirm (clause 2.7): the cart becomes an order with its lines and its payment, the stock goes down, the cart is empty.

use super::cart::InCart;
use super::money::Sums;
use super::{Page, need};
use load_clients::chance::digits;
use load_clients::session::Trouble;
use load_clients::value::{Value, now_us};
use load_clients::values;

const CUSTOMER: &str = "SELECT c_discount, c_addr_id, c_fname, c_lname FROM tpcw_customer WHERE c_id = $1";
const ORDER: &str = "INSERT INTO tpcw_orders (o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, \
    o_bill_addr_id, o_ship_addr_id, o_status) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'PENDING') RETURNING o_id";
const LINE: &str = "INSERT INTO tpcw_order_line (ol_id, ol_o_id, ol_i_id, ol_qty, ol_price, ol_discount, ol_comments) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const STOCK: &str = "SELECT i_stock FROM tpcw_item WHERE i_id = $1 FOR UPDATE";
const SET_STOCK: &str = "UPDATE tpcw_item SET i_stock = $1 WHERE i_id = $2";
const PAYMENT: &str = "INSERT INTO tpcw_cc_xacts (cx_o_id, cx_type, cx_num, cx_name, cx_expiry, cx_auth_id, cx_xact_amt, \
    cx_xact_date, cx_co_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, \
    (SELECT co_id FROM tpcw_address, tpcw_country WHERE addr_id = $9 AND addr_co_id = co_id))";
const EMPTY_CART: &str = "DELETE FROM tpcw_shopping_cart_line WHERE scl_sc_id = $1";

const DAY_US: i64 = 86_400_000_000;

const SHIPPING: [&str; 6] = ["AIR", "UPS", "FEDEX", "SHIP", "COURIER", "MAIL"];
const CARDS: [&str; 5] = ["VISA", "MASTERCARD", "DISCOVER", "AMEX", "DINERS"];

impl Page<'_> {
    /// Orders the content of the cart, for an address that is typed again in 5 of 100.
    pub(super) async fn buy_confirm(&mut self) -> Result<(), Trouble> {
        let lines = self.filled_cart().await?;
        let customer = self.session.ask(CUSTOMER, values![self.browser.customer]).await?;
        let row = customer.first()?;
        let (discount, home) = (need(row.int(0))?, need(row.int(1))?);
        let address = if self.rules.within(1, 100) <= 5 { self.address().await? } else { home };
        let sums = Sums::of(lines.iter().map(|line| (i64::from(line.quantity), line.price)), discount);
        let order = self.order(sums, home, address).await?;
        for (number, line) in (1..).zip(&lines) {
            self.line(order, number, line, discount).await?;
        }
        self.pay(order, sums, address).await?;
        let cart = need(self.browser.cart)?;
        self.session.ask(EMPTY_CART, values![cart]).await.map(drop)
    }

    async fn order(&mut self, sums: Sums, home: i32, address: i32) -> Result<i32, Trouble> {
        let now = now_us();
        let shipping = SHIPPING[self.rules.chance.usize(0..SHIPPING.len())];
        let sent = Value::Time(now + i64::from(self.rules.within(1, 7)) * DAY_US);
        let Sums { sub_total, tax, total } = sums;
        let customer = self.browser.customer;
        let row = values![customer, Value::Time(now), sub_total, tax, total, shipping, sent, home, address];
        need(self.session.ask(ORDER, row).await?.first()?.int(0))
    }

    /// Writes a line and takes its books from the stock, which is filled up by 21 when fewer than ten would be left.
    async fn line(&mut self, order: i32, number: i32, line: &InCart, discount: i32) -> Result<(), Trouble> {
        let InCart { item, quantity, price } = *line;
        let comments = self.rules.text(20, 100);
        self.session.ask(LINE, values![number, order, item, quantity, price, discount, comments]).await?;
        let stock = need(self.session.ask(STOCK, values![item]).await?.first()?.int(0))?;
        let left = if stock - quantity < 10 { stock - quantity + 21 } else { stock - quantity };
        self.session.ask(SET_STOCK, values![left, item]).await.map(drop)
    }

    async fn pay(&mut self, order: i32, sums: Sums, address: i32) -> Result<(), Trouble> {
        let now = now_us();
        let rules = &mut self.rules;
        let card = CARDS[rules.chance.usize(0..CARDS.len())];
        let (number, name) = (digits(&mut rules.chance, 16), rules.text(14, 30));
        let (expiry, proof) = (now + i64::from(rules.within(10, 730)) * DAY_US, rules.text(15, 15));
        let (expiry, now) = (Value::Time(expiry), Value::Time(now));
        let row = values![order, card, number, name, expiry, proof, sums.total, now, address];
        self.session.ask(PAYMENT, row).await.map(drop)
    }
}
