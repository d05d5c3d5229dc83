//! `consort explain`: what a statement touches, whether it may leave the primary, and what keeps it there; in designs that order
//! transactions before they are executed, whether every server executes it, and what is to be declared for it.

mod ordered;

use std::collections::BTreeMap;

use clap::Args;
use config::{Config, OffloadInTransactions};
use design::Design;
use history::{Access, Footprint, RelationId, Rows};
use ordered::In;
use postgres::attach;
use postgres::{Address, Analyst, Control};
use session_state::utility::{Utility, What, split};
use session_state::{Interner, Settings};
use statement_analysis::catalog::Volatility;
use statement_analysis::shape::{Hint, Shape, Strings};
use statement_analysis::template::unknown_functions;
use statement_analysis::{Catalog, Input, Template, Values, judge};

use crate::cluster_in::Which;
use crate::failure::Failure;
use crate::runtime;

/// Show the tables of a statement, and why it runs at a replica or at the primary
///
/// PostgreSQL analyses the statement with the given role and search path. The statement is not executed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Database; default: that of the configuration, or postgres if there are several
    #[arg(long, value_name = "NAME")]
    database: Option<String>,
    /// Role that runs the statement; default: Consort's own
    #[arg(long, value_name = "ROLE")]
    user: Option<String>,
    /// Search path of the session; default: the server's
    #[arg(long, value_name = "SCHEMAS")]
    search_path: Option<String>,
    /// Statement to explain
    #[arg(value_name = "STATEMENT")]
    statement: String,
}

const EXAMPLES: &str = "\
Examples:
  consort explain \"SELECT * FROM orders WHERE id = 7\"
  consort explain --database shop --user app \"SELECT nextval('orders_id_seq')\"
  consort explain --config consort.toml \"SELECT count(*) FROM orders\"";

/// Explains each statement of the text.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find()?.running()?;
    let address = found.address(&found.config.primary, database(options, &found.config))?;
    runtime()?.block_on(explain(options, &address, &found.config))
}

/// The database in which the statement is explained.
fn database<'a>(options: &'a Options, config: &'a Config) -> &'a str {
    match (&options.database, &config.databases[..]) {
        (Some(named), _) => named,
        (None, [only]) if only != "*" => only,
        (None, _) => "postgres",
    }
}

async fn explain(options: &Options, address: &Address, config: &Config) -> Result<(), Failure> {
    let control = Control::connect(address).await?;
    let (design, catalog) = (config.design(), catalog(&control, config).await?);
    let ordered = design.orders_first().then_some(In { design, catalog: &catalog });
    let settings = settings(options, address).await?;
    let missing = attach::missing(&control).await?;
    let mut analyst = Analyst::connect(address).await?;
    let statements = split(&options.statement, Strings::Standard);
    if statements.is_empty() {
        return Err(Failure::new("the text contains no statement"));
    }
    if statements.len() > 1 {
        println!("in one query message all statements run at the primary; each as its own query:");
    }
    let whole = Shape::of(&options.statement, Strings::Standard);
    print_comment(whole.hint(), &design);
    // The declaration is the first statement's.
    let mut declaration = whole.declaration(&options.statement);
    for statement in statements {
        let declaration = declaration.take();
        let text = &options.statement[statement.range];
        println!("{}", text.trim());
        match statement.what {
            What::Utility(utility) => {
                if utility == Utility::Unknown {
                    // PostgreSQL itself may refuse a statement that the parser here does not know. Nothing of
                    // it is executed.
                    let client = Control::like_a_client(address).await?;
                    client.prepare(text).await.map_err(postgres::Error::from)?;
                }
                if !ordered
                    .as_ref()
                    .is_some_and(|ordered| ordered.utility(&utility, text, declaration.as_ref()))
                {
                    println!("  runs at the primary: utility statement ({})", utility.name());
                }
            }
            What::Tree => {
                let shape = Shape::of(text, Strings::Standard);
                let analysed = analyst.analyse(&settings, text, &[]).await?;
                let input = Input {
                    trees: &analysed.trees,
                    text,
                    literals: &shape.ranges(),
                    parameters: &analysed.parameters,
                };
                let template = judge(&input, &catalog);
                let mut literals = Vec::new();
                shape.texts(text, &mut literals);
                let values = Values { literals: &literals, parameters: &[], utf8: true };
                let touched = [&template.reads, &template.writes].map(|footprint| footprint.fill(&values));
                let names = Names::of(&control, &catalog, &touched).await?;
                match &ordered {
                    Some(ordered) => ordered.tree(&template, &values, declaration.as_ref()),
                    None => print_stay(&template, &values, config),
                }
                print(&template, &touched, &names);
                print_unknown(&analysed.trees, &catalog);
            }
        }
    }
    if !missing.is_empty() {
        println!("the database {} is not attached; all its reads stay at the primary", address.database);
    }
    Ok(())
}

/// The catalog, with what the configuration declares of it.
async fn catalog(control: &Control, config: &Config) -> Result<Catalog, Failure> {
    let mut catalog = postgres::load(control).await?.catalog;
    catalog.trusts_declarations = config.design().orders_first();
    for wrong in catalog.declare(&config.procedures, &config.declared_safe()) {
        println!("{wrong}: this declaration is ignored");
    }
    Ok(catalog)
}

/// Prints the request of the comment before the statement.
fn print_comment(hint: Option<Hint>, design: &Design) {
    match hint {
        Some(Hint::Level(level)) => println!("the comment requests the consistency {level}"),
        Some(Hint::Declares) => {
            println!("the comment declares tables, which applies in designs with declared tables")
        }
        Some(Hint::Unknown) if design.declares_tables() => {
            println!("invalid comment: rejected with 42704");
        }
        Some(Hint::Unknown) => {
            println!("the comment requests an unknown consistency: runs at the primary");
        }
        None => {}
    }
}

/// The settings of the session that would ask.
async fn settings(options: &Options, address: &Address) -> Result<Settings, Failure> {
    let search_path = match &options.search_path {
        Some(search_path) => search_path.clone(),
        None => {
            let client = Control::like_a_client(address).await?;
            client.query_one("SHOW search_path", &[]).await.map_err(postgres::Error::from)?.get(0)
        }
    };
    let user = options.user.clone().unwrap_or_else(|| address.user.clone());
    let values = [("search_path", search_path), ("session_authorization", user)];
    let values: BTreeMap<String, String> =
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Interner::new(1).intern(values))
}

/// Names of relations.
struct Names<'a> {
    catalog: &'a Catalog,
    /// Relations that the catalog leaves out: PostgreSQL's own.
    others: BTreeMap<RelationId, String>,
}

impl Names<'_> {
    /// Asks for those that the catalog does not know.
    async fn of<'a>(
        control: &Control,
        catalog: &'a Catalog,
        footprints: &[Footprint],
    ) -> Result<Names<'a>, Failure> {
        let tables = footprints.iter().filter_map(Footprint::tables).flatten().map(|(table, _)| table);
        let unknown: Vec<u32> =
            tables.filter(|table| !catalog.relations.contains_key(table)).map(RelationId::get).collect();
        let sql = "SELECT oid, oid::regclass::text FROM pg_catalog.pg_class WHERE oid = ANY ($1)";
        let rows = control.query(sql, &[&unknown]).await.map_err(postgres::Error::from)?;
        let others = rows.iter().map(|row| (RelationId::new(row.get(0)), row.get(1))).collect();
        Ok(Names { catalog, others })
    }

    fn table(&self, table: RelationId) -> String {
        let other = self.others.get(&table).cloned();
        other.unwrap_or_else(|| self.catalog.relation_name(table))
    }
}

/// Prints if the statement may be offloaded, and the reasons why not.
fn print_stay(template: &Template, values: &Values<'_>, config: &Config) {
    match template.stay_with(values) {
        None => {
            println!("  outside a transaction: may run at a standby, if its result is proven fresh");
            println!("  inside one: {}", in_transaction(config));
        }
        Some(stay) => {
            println!("  runs at the primary: {}", stay.sentence());
            for other in template.stays.iter().filter(|other| **other != stay) {
                println!("    and: {}", other.sentence());
            }
        }
    }
}

/// Where a read of a READ COMMITTED transaction that may write runs.
fn in_transaction(config: &Config) -> &'static str {
    if config.design() != design::CONSORT {
        return "at a standby if the transaction is READ ONLY; otherwise as the design says";
    }
    match config.offload_in_transactions {
        OffloadInTransactions::On => {
            "the same before the first write or other command; afterwards if such statements take 2 ms or more, and \
             the transaction has not written what it reads (offload_in_transactions)"
        }
        OffloadInTransactions::Locked => {
            "the same if such statements take 2 ms or more, and the transaction has not written what it reads \
             (offload_in_transactions)"
        }
        OffloadInTransactions::Off => "at the primary, unless it is READ ONLY (offload_in_transactions)",
    }
}

/// Prints the functions that are not known to be safe at a replica, and the line of the configuration that would let them go.
fn print_unknown(trees: &str, catalog: &Catalog) {
    for function in unknown_functions(trees, catalog) {
        let Some(known) = catalog.functions.get(&function) else { continue };
        let name = format!("{}.{}", known.schema, known.name);
        let line = match &known.extension {
            Some(extension) if known.volatility == Volatility::Immutable => {
                format!("[extension.{extension}] trust = \"immutable\"")
            }
            _ if known.is_native && known.volatility == Volatility::Volatile => {
                println!("  unknown: {name}, which may change the session: it stays at the primary");
                continue;
            }
            _ if known.volatility == Volatility::Immutable => {
                format!("replica_safe_functions = [\"{name}\"]")
            }
            _ => format!(
                "replica_safe_functions = [\"{name}\"] and [procedure.\"{name}\"] tables_read = \"..\""
            ),
        };
        println!("  unknown: {name}; if it depends on its arguments and on named tables alone: {line}");
    }
}

fn print(template: &Template, [reads, writes]: &[Footprint; 2], names: &Names<'_>) {
    println!("  reads: {}", named(reads, names));
    if !template.writes.is_nothing() {
        println!("  writes: {}", named(writes, names));
    }
    if let Some(chance) = template.chance {
        println!("  not deterministic ({}): one node per session", chance.name());
    }
    if template.dirties {
        println!("  may change session state: the session stays at the primary until that is known");
    }
}

/// A footprint with the names of its tables.
fn named(footprint: &Footprint, names: &Names<'_>) -> String {
    let Some(tables) = footprint.tables() else { return "everything".to_owned() };
    let all: Vec<String> = tables.map(|(table, access)| one(table, access, names)).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}

fn one(table: RelationId, access: &Access, names: &Names<'_>) -> String {
    let rows = match &access.rows {
        Rows::All => "all rows".to_owned(),
        Rows::Keys(keys) if keys.len() == 1 => "1 row by its key".to_owned(),
        Rows::Keys(keys) => format!("{} rows by their keys", keys.len()),
    };
    let relation = names.catalog.relations.get(&table);
    let column = |number: i16| {
        let column = relation.and_then(|relation| relation.columns.get(&number));
        column.map_or_else(|| number.to_string(), |column| column.name.clone())
    };
    let columns = match access.columns.attributes() {
        None => "all columns".to_owned(),
        Some(numbers) => numbers.map(column).collect::<Vec<_>>().join(", "),
    };
    let columns = if columns.is_empty() { "no column".to_owned() } else { columns };
    let existence = if access.existence { "; existence of rows" } else { "" };
    format!("{} ({columns}; {rows}{existence})", names.table(table))
}
