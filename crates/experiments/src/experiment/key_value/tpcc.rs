//! TPC-C's transactions over keys and values, as the paper's second load: 45 % New-Order, 45 % Payment, 5 % Order-Status and
//! 5 % Stock-Level. Rows have the fields that the transactions change, and filling up to a row's usual length.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use consort::failure::Failure;
use fastrand::Rng;

use super::client::Client;

/// Districts of a warehouse, customers of a district, and items.
const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 100;
const ITEMS: u64 = 1_000;
/// Orders whose lines Stock-Level reads.
const RECENT: u64 = 20;
/// Bytes of a row, roughly.
const ROW: usize = 200;

/// The tables: so many warehouses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    warehouses: u64,
}

/// One transaction with its inputs.
#[derive(Clone, Debug)]
pub(super) enum Transaction {
    NewOrder { district: District, customer: u64, lines: Vec<(u64, u64)> },
    Payment { district: District, customer: u64, amount: u64, history: u64 },
    OrderStatus { district: District, customer: u64 },
    StockLevel { district: District, below: u64 },
}

/// A district of a warehouse.
#[derive(Clone, Copy, Debug)]
pub(super) struct District {
    warehouse: u64,
    number: u64,
}

impl District {
    fn key(self) -> Bytes {
        format!("d/{}/{}", self.warehouse, self.number).into()
    }

    fn warehouse_key(self) -> Bytes {
        format!("w/{}", self.warehouse).into()
    }

    fn customer(self, customer: u64) -> Bytes {
        format!("c/{}/{}/{customer}", self.warehouse, self.number).into()
    }

    fn order(self, order: u64) -> Bytes {
        format!("o/{}/{}/{order:08}", self.warehouse, self.number).into()
    }

    fn stock(self, item: u64) -> Bytes {
        format!("s/{}/{item}", self.warehouse).into()
    }
}

impl Tables {
    pub(super) fn of(warehouses: u64) -> Tables {
        Tables { warehouses }
    }

    /// All rows at first.
    pub(super) fn rows(self) -> Vec<(Bytes, Bytes)> {
        let mut rows: Vec<(Bytes, Bytes)> =
            (0..ITEMS).map(|item| (format!("i/{item}").into(), row(&[item % 100 + 1]))).collect();
        for warehouse in 0..self.warehouses {
            for number in 0..DISTRICTS {
                let district = District { warehouse, number };
                rows.push((district.key(), row(&[1, 0])));
                rows.extend((0..CUSTOMERS).map(|customer| (district.customer(customer), row(&[0, 0]))));
                if number == 0 {
                    rows.push((district.warehouse_key(), row(&[0])));
                    rows.extend((0..ITEMS).map(|item| (district.stock(item), row(&[100]))));
                }
            }
        }
        rows
    }

    /// Draws a transaction.
    pub(super) fn draw(self, random: &mut Rng) -> Transaction {
        let warehouse = random.u64(..self.warehouses);
        let district = District { warehouse, number: random.u64(..DISTRICTS) };
        let customer = random.u64(..CUSTOMERS);
        match random.u32(..100) {
            0..45 => {
                let count = random.usize(5..=15);
                let mut items: Vec<u64> = (0..count).map(|_| random.u64(..ITEMS)).collect();
                items.sort_unstable();
                items.dedup();
                let lines = items.into_iter().map(|item| (item, random.u64(1..=10))).collect();
                Transaction::NewOrder { district, customer, lines }
            }
            45..90 => {
                let (amount, history) = (random.u64(1..=5_000), random.u64(..));
                Transaction::Payment { district, customer, amount, history }
            }
            90..95 => Transaction::OrderStatus { district, customer },
            _ => Transaction::StockLevel { district, below: random.u64(10..=20) },
        }
    }
}

impl Transaction {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Transaction::NewOrder { .. } => "New-Order",
            Transaction::Payment { .. } => "Payment",
            Transaction::OrderStatus { .. } => "Order-Status",
            Transaction::StockLevel { .. } => "Stock-Level",
        }
    }

    /// Does it within the client's transaction.
    pub(super) async fn run(&self, client: &mut dyn Client) -> Result<(), Failure> {
        match self {
            Transaction::NewOrder { district, customer, lines } => {
                new_order(client, *district, *customer, lines).await
            }
            Transaction::Payment { district, customer, amount, history } => {
                payment(client, *district, *customer, *amount, *history).await
            }
            Transaction::OrderStatus { district, customer } => {
                let [order, _] = fields(client, district.customer(*customer)).await?;
                if order > 0 {
                    client.get(district.order(order)).await?;
                }
                Ok(())
            }
            Transaction::StockLevel { district, below } => stock_level(client, *district, *below).await,
        }
    }
}

async fn new_order(
    client: &mut dyn Client,
    district: District,
    customer: u64,
    lines: &[(u64, u64)],
) -> Result<(), Failure> {
    let [_] = fields(client, district.warehouse_key()).await?;
    let [order, paid] = fields(client, district.key()).await?;
    client.put(district.key(), row(&[order + 1, paid])).await?;
    let [_, balance] = fields(client, district.customer(customer)).await?;
    client.put(district.customer(customer), row(&[order, balance])).await?;
    let mut text = vec![customer, lines.len() as u64];
    for (item, quantity) in lines {
        let [price] = fields(client, format!("i/{item}").into()).await?;
        let [stock] = fields(client, district.stock(*item)).await?;
        let left = if stock >= quantity + 10 { stock - quantity } else { stock + 91 - quantity };
        client.put(district.stock(*item), row(&[left])).await?;
        text.extend([*item, *quantity, price * quantity]);
    }
    client.insert(district.order(order), row(&text)).await
}

async fn payment(
    client: &mut dyn Client,
    district: District,
    customer: u64,
    amount: u64,
    history: u64,
) -> Result<(), Failure> {
    let [paid] = fields(client, district.warehouse_key()).await?;
    client.put(district.warehouse_key(), row(&[paid + amount])).await?;
    let [order, paid] = fields(client, district.key()).await?;
    client.put(district.key(), row(&[order, paid + amount])).await?;
    let [last, balance] = fields(client, district.customer(customer)).await?;
    client.put(district.customer(customer), row(&[last, balance + amount])).await?;
    client.insert(format!("h/{history:016x}").into(), row(&[amount])).await
}

async fn stock_level(client: &mut dyn Client, district: District, below: u64) -> Result<(), Failure> {
    let [next, _] = fields(client, district.key()).await?;
    let mut low = 0;
    for order in next.saturating_sub(RECENT).max(1)..next {
        // Without transactions an order may be numbered and not entered.
        let Some(mut order) = client.get(district.order(order)).await? else { continue };
        order.advance(8);
        for _ in 0..order.get_u64() {
            let item = order.get_u64();
            order.advance(16);
            let [stock] = fields(client, district.stock(item)).await?;
            low += u64::from(stock < below);
        }
    }
    std::hint::black_box(low);
    Ok(())
}

/// The first fields of a row that is there.
async fn fields<const N: usize>(client: &mut dyn Client, key: Bytes) -> Result<[u64; N], Failure> {
    let found = client.get(key.clone()).await?;
    let mut row = found.ok_or_else(|| Failure::new(format!("row {key:?} is gone")))?;
    Ok(std::array::from_fn(|_| row.get_u64()))
}

/// A row of these fields.
fn row(fields: &[u64]) -> Bytes {
    let mut row = BytesMut::with_capacity(ROW.max(fields.len() * 8));
    fields.iter().for_each(|field| row.put_u64(*field));
    row.resize(row.len().max(ROW), b'.');
    row.freeze()
}
