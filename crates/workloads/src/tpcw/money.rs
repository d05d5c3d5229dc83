//! Price of an order (clause 2.7.3): its lines less the customer's discount, a tax of 8.25 %, and the
//! shipping.

use load_clients::value::Decimal;

/// The sums of an order or a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) sub_total: Decimal,
    pub(super) tax: Decimal,
    pub(super) total: Decimal,
}

impl Sums {
    /// The sums of lines (quantity and price), with a discount in percent. Shipping is 3.00 and 1.00 for each
    /// thing.
    pub(super) fn of(lines: impl Iterator<Item = (i64, Decimal)>, discount: i32) -> Sums {
        let (mut things, mut cents) = (0, 0);
        for (quantity, price) in lines {
            things += quantity;
            cents += price.to_cents() * quantity;
        }
        let sub_total = rounded(cents * i64::from(100 - discount), 100);
        let tax = rounded(sub_total * 825, 10_000);
        let total = sub_total + tax + 300 + 100 * things;
        Sums { sub_total: Decimal::cents(sub_total), tax: Decimal::cents(tax), total: Decimal::cents(total) }
    }
}

fn rounded(number: i64, by: i64) -> i64 {
    (number + by / 2) / by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discount_tax_and_shipping() {
        let lines = [(2, Decimal::cents(1000)), (1, Decimal::cents(555))];
        let sums = Sums::of(lines.into_iter(), 10);
        // 25.55 less 10 % is 23.00 (22.995 rounded), the tax 1.90, the shipping 6.00.
        assert_eq!(
            (sums.sub_total, sums.tax, sums.total),
            (Decimal::cents(2300), Decimal::cents(190), Decimal::cents(3090))
        );
    }
}
