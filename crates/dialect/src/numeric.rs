//! Exact decimal numbers of at most 38 digits, with PostgreSQL's rules for the scale of results
//! (`src/backend/utils/adt/numeric.c`). Stored as canonical text: no leading zeros, the display scale kept.

use std::cmp::Ordering;
use std::fmt;

use crate::problem::{Problem, division_by_zero, invalid_input, out_of_range};

/// Digits that a value may have.
pub const MAX_DIGITS: u32 = 38;

/// A number `mantissa / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) mantissa: i128,
    pub(crate) scale: u32,
}

fn power(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

fn too_long() -> Problem {
    Problem::unsupported(format!("a numeric value of more than {MAX_DIGITS} digits"))
        .hint("Cast to double precision, or round the operands to a smaller scale.")
}

impl Decimal {
    fn checked(mantissa: Option<i128>, scale: u32) -> Result<Decimal, Problem> {
        let limit = power(MAX_DIGITS).unwrap_or(i128::MAX);
        match mantissa {
            Some(mantissa) if mantissa.unsigned_abs() < limit.unsigned_abs() && scale <= MAX_DIGITS => {
                Ok(Decimal { mantissa, scale })
            }
            _ => Err(too_long()),
        }
    }

    /// Reads a number as a client writes it; an exponent is allowed.
    pub(crate) fn parse(text: &str) -> Result<Decimal, Problem> {
        let invalid = || invalid_input("numeric", text);
        let word = text.trim();
        let lower = word.to_ascii_lowercase();
        let unsigned = lower.strip_prefix(['-', '+']).unwrap_or(&lower);
        if matches!(unsigned, "nan" | "inf" | "infinity") {
            return Err(Problem::unsupported(format!("the numeric value {word}")));
        }
        let (digits, exponent) = match lower.split_once('e') {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().map_err(|_| invalid())?),
            None => (lower.as_str(), 0),
        };
        let is_negative = digits.starts_with('-');
        let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if all().next().is_none() || !all().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        let mut mantissa: Option<i128> = Some(0);
        for digit in all() {
            mantissa = mantissa.and_then(|sum| sum.checked_mul(10)?.checked_add(i128::from(digit - b'0')));
        }
        let scale = i32::try_from(fraction.len()).map_err(|_| too_long())?.saturating_sub(exponent);
        if scale < 0 {
            let factor = power(scale.unsigned_abs());
            mantissa = mantissa.and_then(|sum| if sum == 0 { Some(0) } else { sum.checked_mul(factor?) });
        }
        if is_negative {
            mantissa = mantissa.map(|sum| -sum);
        }
        Decimal::checked(mantissa, u32::try_from(scale).unwrap_or(0))
    }

    pub(crate) fn from_integer(number: i64) -> Decimal {
        Decimal { mantissa: i128::from(number), scale: 0 }
    }

    fn aligned(self, other: Decimal) -> Option<(i128, i128, u32)> {
        let scale = self.scale.max(other.scale);
        let left = self.mantissa.checked_mul(power(scale - self.scale)?)?;
        let right = other.mantissa.checked_mul(power(scale - other.scale)?)?;
        Some((left, right, scale))
    }

    pub(crate) fn add(self, other: Decimal) -> Result<Decimal, Problem> {
        let (left, right, scale) = self.aligned(other).ok_or_else(too_long)?;
        Decimal::checked(left.checked_add(right), scale)
    }

    pub(crate) fn negate(self) -> Decimal {
        Decimal { mantissa: -self.mantissa, ..self }
    }

    pub(crate) fn multiply(self, other: Decimal) -> Result<Decimal, Problem> {
        Decimal::checked(self.mantissa.checked_mul(other.mantissa), self.scale + other.scale)
    }

    /// Weight and first digit of PostgreSQL's base-10,000 form.
    fn weight_and_first_digit(self) -> (i64, i64) {
        if self.mantissa == 0 {
            return (0, 0);
        }
        let digits = i64::from(self.mantissa.unsigned_abs().ilog10());
        // Decimal exponent of the leading digit.
        let exponent = digits - i64::from(self.scale);
        let weight = exponent.div_euclid(4);
        let group = exponent.rem_euclid(4);
        // The first base-10,000 digit has group + 1 decimal digits.
        let drop = digits - group;
        let magnitude = self.mantissa.unsigned_abs();
        let first = match u32::try_from(drop) {
            Ok(drop) => magnitude / 10_u128.pow(drop),
            Err(_) => magnitude * 10_u128.pow(u32::try_from(-drop).unwrap_or(0)),
        };
        (weight, i64::try_from(first).unwrap_or(0))
    }

    /// `select_div_scale`: at least 16 significant digits.
    fn quotient_scale(self, divisor: Decimal) -> u32 {
        let (weight1, first1) = self.weight_and_first_digit();
        let (weight2, first2) = divisor.weight_and_first_digit();
        let weight = weight1 - weight2 - i64::from(first1 <= first2);
        let scale = (16 - weight * 4).max(i64::from(self.scale)).max(i64::from(divisor.scale));
        u32::try_from(scale.clamp(0, 1000)).unwrap_or(0)
    }

    pub(crate) fn divide(self, divisor: Decimal) -> Result<Decimal, Problem> {
        if divisor.mantissa == 0 {
            return Err(division_by_zero());
        }
        let scale = self.quotient_scale(divisor);
        let (left, right, _) = self.aligned(divisor).ok_or_else(too_long)?;
        let (left, right, is_negative) =
            (left.unsigned_abs(), right.unsigned_abs(), (left < 0) != (right < 0));
        let (mut quotient, mut rest) = (Some(left / right), left % right);
        for _ in 0..scale {
            let more = rest.checked_mul(10).ok_or_else(too_long)?;
            quotient = quotient.and_then(|digits| digits.checked_mul(10)?.checked_add(more / right));
            rest = more % right;
        }
        let up = u128::from(rest >= right - rest);
        let quotient = quotient.and_then(|digits| i128::try_from(digits.checked_add(up)?).ok());
        Decimal::checked(quotient.map(|digits| if is_negative { -digits } else { digits }), scale)
    }

    pub(crate) fn remainder(self, divisor: Decimal) -> Result<Decimal, Problem> {
        if divisor.mantissa == 0 {
            return Err(division_by_zero());
        }
        let (left, right, scale) = self.aligned(divisor).ok_or_else(too_long)?;
        Decimal::checked(Some(left % right), scale)
    }

    /// Rounds half away from zero to a scale, which may be negative: then the result's scale is 0.
    pub(crate) fn round(self, scale: i32) -> Result<Decimal, Problem> {
        self.rescale(scale, |rest, unit| u128::from(rest >= unit - rest))
    }

    /// Drops digits after a scale.
    pub(crate) fn truncate(self, scale: i32) -> Result<Decimal, Problem> {
        self.rescale(scale, |_, _| 0)
    }

    fn rescale(self, scale: i32, up: fn(u128, u128) -> u128) -> Result<Decimal, Problem> {
        let shown = u32::try_from(scale).unwrap_or(0);
        if let Ok(more) = u32::try_from(i64::from(scale) - i64::from(self.scale)) {
            return Decimal::checked(power(more).and_then(|factor| self.mantissa.checked_mul(factor)), shown);
        }
        let fewer = u32::try_from(i64::from(self.scale) - i64::from(scale)).unwrap_or(0);
        let Some(unit) = 10_u128.checked_pow(fewer) else { return Ok(Decimal { mantissa: 0, scale: shown }) };
        let magnitude = self.mantissa.unsigned_abs();
        let mut kept =
            i128::try_from(magnitude / unit + up(magnitude % unit, unit)).map_err(|_| too_long())?;
        if scale < 0 {
            kept = power(scale.unsigned_abs())
                .and_then(|factor| kept.checked_mul(factor))
                .ok_or_else(too_long)?;
        }
        Decimal::checked(Some(if self.mantissa < 0 { -kept } else { kept }), shown)
    }

    pub(crate) fn floor(self) -> Result<Decimal, Problem> {
        let whole = self.truncate(0)?;
        if self.mantissa < 0 && whole.compare(self) == Ordering::Greater {
            return whole.add(Decimal::from_integer(-1));
        }
        Ok(whole)
    }

    /// The value as an integer, rounded half away from zero; `name` is the type's.
    pub(crate) fn to_integer(self, name: &str) -> Result<i64, Problem> {
        i64::try_from(self.round(0)?.mantissa).map_err(|_| out_of_range(name))
    }

    pub(crate) fn to_float(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The value that a column `numeric(precision, scale)` stores.
    pub(crate) fn fit(self, precision: u32, scale: u32) -> Result<Decimal, Problem> {
        let rounded = self.round(i32::try_from(scale).unwrap_or(0))?;
        let limit = power(precision).ok_or_else(too_long)?;
        if rounded.mantissa.unsigned_abs() >= limit.unsigned_abs() {
            let whole = precision - scale;
            let bound = if whole == 0 { "1".to_owned() } else { format!("10^{whole}") };
            return Err(Problem::new("22003", "numeric field overflow").detail(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
            )));
        }
        Ok(rounded)
    }

    pub(crate) fn compare(self, other: Decimal) -> Ordering {
        compare_text(&self.to_string(), &other.to_string())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let width = self.scale as usize + 1;
        let digits = format!("{:0>width$}", self.mantissa.unsigned_abs());
        let (whole, fraction) = digits.split_at(digits.len() - self.scale as usize);
        if self.scale == 0 { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{fraction}") }
    }
}

/// The order of two numbers in canonical text: the collation of numeric columns. 1.0 equals 1.00.
pub(crate) fn compare_text(left: &str, right: &str) -> Ordering {
    match (left.strip_prefix('-'), right.strip_prefix('-')) {
        (None, None) => compare_magnitude(left, right),
        (Some(left), Some(right)) => compare_magnitude(right, left),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
    }
}

fn compare_magnitude(left: &str, right: &str) -> Ordering {
    let (whole1, fraction1) = left.split_once('.').unwrap_or((left, ""));
    let (whole2, fraction2) = right.split_once('.').unwrap_or((right, ""));
    whole1
        .len()
        .cmp(&whole2.len())
        .then_with(|| whole1.cmp(whole2))
        .then_with(|| fraction1.trim_end_matches('0').cmp(fraction2.trim_end_matches('0')))
}

/// The text of a float as PostgreSQL prints it: the shortest that reads back the same.
pub(crate) fn float_text(number: f64, is_single: bool) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = shortest(number, is_single);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Shortest output leaves the plain notation at these exponents (`ryu` in src/common/d2s.c).
    if (-4..if is_single { 6 } else { 15 }).contains(&exponent) {
        return plain_notation(digits, exponent);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The shortest digits that read back as this number, in scientific notation. A decimal in the middle between two floats
/// does not count, although it reads back: PostgreSQL's search leaves the ends of the interval out.
fn shortest(number: f64, is_single: bool) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a value of type real was rounded before")]
    let single = number as f32;
    let reads_back = |text: &str| {
        if is_single { text.parse() == Ok(single) } else { text.parse() == Ok(number) }
    };
    let is_inside = |text: &str| {
        let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let point = if digits.contains('.') { "" } else { "." };
        let above = format!("{digits}{point}0000000000000000000000001e{exponent}");
        let whole: String = digits.chars().filter(char::is_ascii_digit).collect();
        let places = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let less = whole.parse::<u64>().unwrap_or(0).saturating_sub(1);
        let sign = if digits.starts_with('-') { "-" } else { "" };
        let shift = exponent.parse::<i64>().unwrap_or(0) - i64::try_from(places).unwrap_or(0);
        reads_back(&above) && reads_back(&format!("{sign}{less}.9999999999999999999999999e{shift}"))
    };
    let exact = |places: usize| {
        if is_single { format!("{single:.places$e}") } else { format!("{number:.places$e}") }
    };
    let text = if is_single { format!("{single:e}") } else { format!("{number:e}") };
    let digits = text.split_once('e').map_or("", |(digits, _)| digits);
    let places = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if number == 0.0 {
        return text;
    }
    // Of two decimals at the same distance the even one is taken.
    (places..17).map(exact).find(|text| reads_back(text) && is_inside(text)).unwrap_or(text)
}

/// Digits such as `-1.25` with a decimal exponent, without an exponent.
fn plain_notation(digits: &str, exponent: i32) -> String {
    let sign = if digits.starts_with('-') { "-" } else { "" };
    let all: String = digits.chars().filter(char::is_ascii_digit).collect();
    match usize::try_from(exponent) {
        Ok(exponent) if all.len() > exponent + 1 => {
            format!("{sign}{}.{}", &all[..=exponent], &all[exponent + 1..])
        }
        Ok(exponent) => format!("{sign}{all:0<width$}", width = exponent + 1),
        Err(_) => {
            let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
            format!("{sign}0.{zeros}{all}")
        }
    }
}
