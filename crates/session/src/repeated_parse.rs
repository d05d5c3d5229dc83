//! Repeated Parse of a named statement that was parsed and executed in one batch before Consort had analysed its
//! text: so the settings after its Parse were unknown. The statement could not be offloaded until its client
//! prepares it again, which most drivers never do.
//!
//! Nothing that decides the meaning of the text has changed since the Parse, so the repeated one gives the same
//! statement. If its columns differ all the same, it is refused, as PostgreSQL refuses it.

use super::Session;
use super::primary::Ended;
use backend::prepared_statements::{SettingsAt, Under, is_of_unknown_settings, parsed_again};
use cluster::plan::Plan;
use session_state::BlockStatus;

/// True if a repeated Parse lets this read be offloaded. Outside a block only: an error would fail a
/// block.
pub(super) fn is_to_be_parsed_again(
    session: &Session,
    name: &[u8],
    plan: &Plan,
    meaning: Option<u64>,
) -> bool {
    matches!(plan, Plan::Leaves(_))
        && meaning.is_some()
        && session.state.block() == BlockStatus::Idle
        && session.state.knows_names()
        && !session.state.may_hide()
        && is_of_unknown_settings(
            &session.line.statements,
            name,
            session.database.names(),
            session.state.name_changes(),
            SettingsAt::of(session.state.settings()),
        )
}

/// Has the primary parse the client's statement of this name again. If its columns differ, the connection
/// has no such statement afterwards, and its next use is refused there.
pub(super) async fn parse_again(
    session: &mut Session,
    name: &[u8],
    meaning: Option<u64>,
) -> Result<(), Ended> {
    let Some(meaning) = meaning else { return Ok(()) };
    session.at_home().await?;
    let shown = session.shown_by_now().await;
    let names = session.database.names().now(shown);
    session.line.statements.unlearned(name);
    if session.line.learn_described(name).await?.is_err() {
        // The check before its next use has to find the difference again, and refuses it.
        session.line.statements.unlearned(name);
        session.line.statements.has_columns(name, names, None);
        return Ok(());
    }
    let settings = session.state.settings();
    let now = SettingsAt::of(settings);
    let under = Under {
        settings: Some(now),
        if_judged: Some(now),
        before: None,
        known: Some(settings.clone()),
        names,
        name_changes: session.state.name_changes(),
    };
    parsed_again(&mut session.line.statements, name, under, meaning);
    Ok(())
}
