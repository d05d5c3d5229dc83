//! Templates filled with the values of one execution.

use super::*;
use crate::catalog::KeyForm;
use crate::key::Canonical;
use history::{Access, ColumnSet, Footprint, Key, KeyBuilder, MAX_KEYS, Rows};

const T: RelationId = RelationId::new(16400);

fn slot(form: KeyForm, source: Source) -> Slot {
    Slot { form, source, cut: false }
}

fn template(columns: Vec<Vec<Slot>>) -> FootprintTemplate {
    let mut template = FootprintTemplate::NOTHING;
    let rows = RowsTemplate::Keys(vec![KeyTemplate(columns)]);
    template.add(T, AccessTemplate { columns: ColumnSet::of([1]), rows, existence: false });
    template
}

fn rows(footprint: &Footprint) -> Rows {
    footprint.tables().unwrap().next().unwrap().1.rows.clone()
}

fn number(value: i64) -> Key {
    KeyBuilder::default().integer(value).finish()
}

fn word(value: &str) -> Key {
    KeyBuilder::default().bytes(value.as_bytes()).finish()
}

fn values<'a>(literals: &'a [&'a str], parameters: &'a [Parameter<'a>]) -> Values<'a> {
    Values { literals, parameters, utf8: true }
}

#[test]
fn a_literal_and_a_parameter_name_the_same_row() {
    let by_literal =
        template(vec![vec![slot(KeyForm::Integer, Source::Literal { number: 1, negative: true })]]);
    let filled = by_literal.fill(&values(&["'x'", "5"], &[]));
    assert_eq!(filled, Footprint::of(T, Access::read(ColumnSet::of([1]), Rows::keys([number(-5)]))));
    let by_parameter =
        template(vec![vec![slot(KeyForm::Integer, Source::Parameter { number: 2, type_id: 23 })]]);
    let text = [Parameter::Null, Parameter::Text(b"-5")];
    let binary = [Parameter::Null, Parameter::Binary(&[0xff, 0xff, 0xff, 0xfb])];
    assert_eq!(by_parameter.fill(&values(&[], &text)), filled);
    assert_eq!(by_parameter.fill(&values(&[], &binary)), filled);
}

#[test]
fn what_is_not_understood_is_every_row() {
    let by_parameter =
        template(vec![vec![slot(KeyForm::Integer, Source::Parameter { number: 1, type_id: 23 })]]);
    for odd in [
        Parameter::Null,
        Parameter::Unknown,
        Parameter::Text(b"x"),
        Parameter::Text(&[0xff]),
        Parameter::Binary(&[1]),
    ] {
        assert_eq!(rows(&by_parameter.fill(&values(&[], &[odd]))), Rows::All, "{odd:?}");
    }
    assert_eq!(rows(&by_parameter.fill(&values(&[], &[]))), Rows::All);
    let by_literal =
        template(vec![vec![slot(KeyForm::Integer, Source::Literal { number: 0, negative: false })]]);
    assert_eq!(rows(&by_literal.fill(&values(&["5.0"], &[]))), Rows::All);
    assert_eq!(rows(&by_literal.fill(&values(&[], &[]))), Rows::All);
}

#[test]
fn arrays_are_every_row_they_name() {
    let by_array = template(vec![vec![slot(KeyForm::Integer, Source::ParameterArray(1))]]);
    let filled = by_array.fill(&values(&[], &[Parameter::Text(b"{3,4}")]));
    assert_eq!(rows(&filled), Rows::keys([number(3), number(4)]));
    assert_eq!(rows(&by_array.fill(&values(&[], &[Parameter::Text(b"{3,NULL}")]))), Rows::All);
    assert_eq!(rows(&by_array.fill(&values(&[], &[Parameter::Text(b"{}")]))), Rows::keys([]));
    let many = (0..=MAX_KEYS).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    assert_eq!(
        rows(&by_array.fill(&values(&[], &[Parameter::Text(format!("{{{many}}}").as_bytes())]))),
        Rows::All
    );
    let by_literal = template(vec![vec![slot(KeyForm::Text, Source::LiteralArray(0))]]);
    assert_eq!(rows(&by_literal.fill(&values(&["'{a,b}'"], &[]))), Rows::keys([word("a"), word("b")]));
}

#[test]
fn a_key_of_two_columns_is_every_combination() {
    let literal = |number| Source::Literal { number, negative: false };
    let two = template(vec![
        vec![slot(KeyForm::Integer, literal(0)), slot(KeyForm::Integer, literal(1))],
        vec![
            slot(KeyForm::Text, Source::Fixed(Canonical::Bytes(b"x".to_vec()))),
            slot(KeyForm::Text, literal(2)),
        ],
    ]);
    let key = |a: i64, b: &str| KeyBuilder::default().integer(a).bytes(b.as_bytes()).finish();
    let expected = Rows::keys([key(1, "x"), key(1, "y"), key(2, "x"), key(2, "y")]);
    assert_eq!(rows(&two.fill(&values(&["1", "2", "'y'"], &[]))), expected);
}

#[test]
fn strings_of_another_encoding_are_no_keys() {
    let by_text = template(vec![vec![slot(KeyForm::Text, Source::Literal { number: 0, negative: false })]]);
    let of = |literal, utf8| rows(&by_text.fill(&Values { literals: &[literal], parameters: &[], utf8 }));
    assert_eq!(of("'é'", true), Rows::keys([word("é")]));
    assert_eq!(of("'é'", false), Rows::All);
    assert_eq!(of("'e'", false), Rows::keys([word("e")]));
}

#[test]
fn blanks_that_may_be_cut_off_are_no_keys() {
    let source = Source::Literal { number: 0, negative: false };
    let cut = template(vec![vec![Slot { form: KeyForm::Text, source, cut: true }]]);
    assert_eq!(rows(&cut.fill(&values(&["'a'"], &[]))), Rows::keys([word("a")]));
    assert_eq!(rows(&cut.fill(&values(&["'a '"], &[]))), Rows::All);
}

#[test]
fn words_for_the_clock_stay() {
    let mut template = Template { stays: BTreeSet::new(), ..Template::everything(Kind::Read, Stay::Writes) };
    template.clock_words.parameters.push(1);
    let ask = |template: &Template, literal, parameter| template.stay_with(&values(&[literal], &[parameter]));
    for word in ["'now'", "'TODAY'", "' Tomorrow 12:00'", "'[2024-01-01,yesterday)'", "E'\\156ow'"] {
        assert_eq!(ask(&template, word, Parameter::Null), Some(Stay::Clock), "{word}");
    }
    assert_eq!(ask(&template, "'2024-01-01'", Parameter::Text(b"2024-01-01")), None);
    assert_eq!(ask(&template, "'2024-01-01'", Parameter::Binary(b"now")), None);
    assert_eq!(ask(&template, "'2024-01-01'", Parameter::Text(b"Now")), Some(Stay::Clock));
    assert_eq!(ask(&template, "'2024-01-01'", Parameter::Unknown), Some(Stay::Clock));
    template.clock_words = ClockWords::default();
    assert_eq!(ask(&template, "'now'", Parameter::Text(b"now")), None);
    template.stays.insert(Stay::Node);
    assert_eq!(ask(&template, "'x'", Parameter::Null), Some(Stay::Node));
}

#[test]
fn names_are_one_each() {
    let names: BTreeSet<&str> = Stay::ALL.iter().map(|stay| stay.name()).collect();
    assert_eq!(names.len(), Stay::ALL.len());
    for stay in Stay::ALL {
        assert!(stay.name().bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()));
        assert!(!stay.sentence().ends_with('.'));
    }
    assert!(Stay::ALL.is_sorted());
}

#[test]
fn bytes_grow_with_what_is_held() {
    let small = Template::everything(Kind::Read, Stay::Writes);
    let source = Source::Literal { number: 0, negative: false };
    let keys = (0..100).map(|_| slot(KeyForm::Integer, source.clone())).collect();
    let large = Template { reads: template(vec![keys]), ..small.clone() };
    assert!(large.bytes() > small.bytes() + 100 * size_of::<Slot>());
}
