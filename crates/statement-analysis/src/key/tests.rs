//! One value has one key, wherever it comes from.

use super::*;
use crate::catalog::KeyColumn;

fn bytes(value: &[u8]) -> Option<Canonical> {
    Some(Canonical::Bytes(value.to_vec()))
}

#[test]
fn integers_of_every_width_and_place() {
    let five = Some(Canonical::Integer(-5));
    assert_eq!(Canonical::of_text(KeyForm::Integer, "-5"), five);
    assert_eq!(Canonical::of_text(KeyForm::Integer, " -05 "), five);
    assert_eq!(Canonical::of_literal(KeyForm::Integer, "5", true), five);
    assert_eq!(Canonical::of_literal(KeyForm::Integer, "'-5'", false), five);
    assert_eq!(Canonical::of_literal(KeyForm::Integer, "$x$-5$x$", false), five);
    assert_eq!(Canonical::of_binary(KeyForm::Integer, oid::INT2, &[0xff, 0xfb]), five);
    assert_eq!(Canonical::of_binary(KeyForm::Integer, oid::INT4, &[0xff, 0xff, 0xff, 0xfb]), five);
    assert_eq!(Canonical::of_binary(KeyForm::Integer, oid::INT8, &(-5i64).to_be_bytes()), five);
    assert_eq!(Canonical::of_datum(oid::INT4, &(-5i64).to_le_bytes()), five);
    assert_eq!(Canonical::of_datum(oid::INT2, &(-5i64).to_le_bytes()), five);
    let least = i64::MIN.to_string();
    assert_eq!(
        Canonical::of_literal(KeyForm::Integer, &least[1..], true),
        Some(Canonical::Integer(i64::MIN))
    );
    for odd in ["", "-", "5.0", "1e3", "0x10", "1_000", "9223372036854775808", "--5", "5 5", "é"] {
        assert_eq!(Canonical::of_text(KeyForm::Integer, odd), None, "{odd}");
    }
    for odd in ["'-5", "E'5\\n'", "-5", "'5'", "5.0", "B'101'"] {
        assert_eq!(Canonical::of_literal(KeyForm::Integer, odd, odd == "'5'"), None, "{odd}");
    }
}

#[test]
fn uuids_in_every_spelling() {
    let canonical = Canonical::of_text(KeyForm::Uuid, "1b4e28ba-2fa1-11d2-883f-0016d3cca427");
    assert!(canonical.is_some());
    for same in [
        "1B4E28BA2FA111D2883F0016D3CCA427",
        "{1b4e28ba-2fa1-11d2-883f-0016d3cca427}",
        "1b4e-28ba-2fa1-11d2-883f-0016-d3cc-a427",
    ] {
        assert_eq!(Canonical::of_text(KeyForm::Uuid, same), canonical, "{same}");
    }
    let Some(Canonical::Bytes(binary)) = &canonical else { panic!() };
    assert_eq!(Canonical::of_binary(KeyForm::Uuid, oid::UUID, binary), canonical);
    assert_eq!(Canonical::of_datum(oid::UUID, binary), canonical);
    for odd in [
        "",
        "1b4e28ba",
        "{1b4e28ba-2fa1-11d2-883f-0016d3cca427",
        "1b4e28ba-2fa1-11d2-883f-0016d3cca42g",
        "1b4e28ba-2fa1-11d2-883f-0016d3cca427-",
        "1b-4e28ba2fa111d2883f0016d3cca427",
    ] {
        assert_eq!(Canonical::of_text(KeyForm::Uuid, odd), None, "{odd}");
    }
    assert_eq!(Canonical::of_binary(KeyForm::Uuid, oid::UUID, &binary[..15]), None);
}

#[test]
fn strings_byte_by_byte() {
    for (literal, value) in [
        ("'abc'", "abc"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("''''", "'"),
        ("E'a''b'", "a'b"),
        ("$$a'b$$", "a'b"),
        ("$t$a$$b$t$", "a$$b"),
        ("'é '", "é "),
    ] {
        assert_eq!(
            Canonical::of_literal(KeyForm::Text, literal, false),
            bytes(value.as_bytes()),
            "{literal}"
        );
    }
    for odd in ["'a\\b'", "E'\\x41'", "'a'b'", "'", "N'a'", "U&'a'", "$t$a$u$", "$a", "5", "'a' 'b'"] {
        assert_eq!(Canonical::of_literal(KeyForm::Text, odd, false), None, "{odd}");
    }
    assert_eq!(Canonical::of_binary(KeyForm::Text, oid::VARCHAR, b"abc"), bytes(b"abc"));
    assert_eq!(Canonical::of_binary(KeyForm::Text, oid::INT4, b"abcd"), None);
    assert_eq!(Canonical::of_datum(oid::TEXT, &[28, 0, 0, 0, b'a', b'b', b'c']), bytes(b"abc"));
    assert_eq!(Canonical::of_datum(oid::TEXT, &[9, b'a', b'b', b'c']), bytes(b"abc"));
    for odd in [&[][..], &[1], &[200, 0, 0, 0], &[28, 0, 0], &[30, 0, 0, 0, 1, 2, 3]] {
        assert_eq!(Canonical::of_datum(oid::TEXT, odd), None, "{odd:?}");
    }
}

#[test]
fn bytea_in_hexadecimal() {
    assert_eq!(Canonical::of_text(KeyForm::Bytes, "\\xDEadbeef"), bytes(&[0xde, 0xad, 0xbe, 0xef]));
    assert_eq!(Canonical::of_literal(KeyForm::Bytes, "'\\x00'", false), bytes(&[0]));
    for odd in ["abc", "\\xabc", "\\x 00", "\\000"] {
        assert_eq!(Canonical::of_text(KeyForm::Bytes, odd), None, "{odd}");
    }
}

#[test]
fn dates_count_from_2000() {
    for (text, days) in [
        ("2000-01-01", 0),
        ("1999-12-31", -1),
        ("2024-02-29", 8825),
        ("2000-03-01", 60),
        ("0001-01-01", -730_119),
        ("9999-12-31", 2_921_939),
    ] {
        assert_eq!(Canonical::of_text(KeyForm::Date, text), Some(Canonical::Integer(days)), "{text}");
    }
    assert_eq!(
        Canonical::of_binary(KeyForm::Date, oid::DATE, &8825i32.to_be_bytes()),
        Some(Canonical::Integer(8825))
    );
    assert_eq!(Canonical::of_datum(oid::DATE, &8825i64.to_le_bytes()), Some(Canonical::Integer(8825)));
    for odd in [
        "today",
        "infinity",
        "2023-02-29",
        "2024-13-01",
        "2024-00-01",
        "2024-01-32",
        "2024-1-1",
        "01/02/2024",
        "0000-01-01",
        "2024-01-01 BC",
        "2024–01-1",
    ] {
        assert_eq!(Canonical::of_text(KeyForm::Date, odd), None, "{odd}");
    }
}

#[test]
fn arrays_of_one_dimension() {
    let text = |text: &str| elements_of_text(text);
    assert_eq!(text("{}"), Some(vec![]));
    assert_eq!(text("{1,-2}"), Some(vec!["1".to_owned(), "-2".to_owned()]));
    assert_eq!(text(r#"{"a b","c\"d",e}"#), Some(vec!["a b".to_owned(), "c\"d".to_owned(), "e".to_owned()]));
    for odd in [
        "",
        "{",
        "{1,}",
        "{,1}",
        "{NULL}",
        "{{1}}",
        "[0:1]={1,2}",
        "{ 1}",
        "{\"a}",
        "{\"a\"b}",
        "{a\\b}",
        "{\x0ba}",
        "{a\x0c}",
    ] {
        assert_eq!(text(odd), None, "{odd}");
    }
    let mut binary: Vec<u8> =
        [1i32, 0, 23, 2, 1, 4, 7, 4, -1].iter().flat_map(|word| word.to_be_bytes()).collect();
    let (element, values) = elements_of_binary(&binary).unwrap();
    assert_eq!((element, values.len()), (23, 2));
    assert_eq!(Canonical::of_binary(KeyForm::Integer, element, values[1]), Some(Canonical::Integer(-1)));
    binary.pop();
    assert_eq!(elements_of_binary(&binary), None);
    let empty: Vec<u8> = [0i32, 0, 23].iter().flat_map(|word| word.to_be_bytes()).collect();
    assert_eq!(elements_of_binary(&empty), Some((23, vec![])));
    let huge: Vec<u8> = [1i32, 0, 23, i32::MAX, 1].iter().flat_map(|word| word.to_be_bytes()).collect();
    assert_eq!(elements_of_binary(&huge), None);
}

#[test]
fn the_row_and_the_statement_agree() {
    let column = |attribute, form| KeyColumn { attribute, form, family: 0 };
    let columns = vec![column(3, KeyForm::Text), column(1, KeyForm::Integer)];
    let key = PrimaryKey { columns, rivals: false };
    let row = |attribute| Some(if attribute == 3 { "x" } else { "7" });
    let expected = KeyBuilder::default().bytes(b"x").integer(7).finish();
    assert_eq!(of_row(&key, row), Some(expected));
    assert_eq!(of_row(&key, |_| None), None);
    assert_eq!(of_row(&key, |_| Some("x")), None);
}
