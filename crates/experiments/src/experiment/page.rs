//! The page of an experiment: what a person wrote about it, and between two marks what a run left: plots and tables. A run
//! replaces what is between the marks and nothing else.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::results::{Results, summary};
use super::table::Experiment;
use consort::failure::Failure;

const BEGIN: &str = "<!-- from here on `consort bench experiment --pages` writes -->";
const END: &str = "<!-- to here -->";

/// Puts plots and tables into the page of the folder.
pub(super) fn write(
    experiment: &Experiment,
    results: &Results<'_>,
    plots: &[PathBuf],
    folder: &Path,
) -> Result<(), Failure> {
    let drawn: Vec<&PathBuf> =
        plots.iter().filter(|plot| plot.extension().is_some_and(|it| it == "svg")).collect();
    for plot in &drawn {
        std::fs::copy(plot, folder.join(plot.file_name().unwrap_or_default()))?;
    }
    let Experiment { name, about, paper, .. } = experiment;
    let beginning = format!("# {name}\n\n{paper}: {about}.");
    let page = folder.join(format!("{name}.md"));
    fill(&page, &beginning, &generated(experiment, results, &drawn))
}

/// Puts the generated part into a page. A page that does not exist yet begins with `beginning`.
pub(super) fn fill(page: &Path, beginning: &str, generated: &str) -> Result<(), Failure> {
    let there = match std::fs::read_to_string(page) {
        Ok(there) => there,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("{beginning}\n\n{BEGIN}\n{END}\n")
        }
        Err(error) => return Err(error.into()),
    };
    let text = with(&there, generated)
        .ok_or_else(|| Failure::new(format!("{} lacks the marks of the generated part", page.display())))?;
    Ok(std::fs::write(page, text)?)
}

/// The page with another part between its marks.
fn with(page: &str, generated: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{generated}\n{END}{after}"))
}

fn generated(experiment: &Experiment, results: &Results<'_>, plots: &[&PathBuf]) -> String {
    let Experiment { name, node_percent, primary_percent, time_s, warm_up_s, rounds, .. } = experiment;
    let quota = match (node_percent, primary_percent) {
        (None, _) => "No server had a quota".to_owned(),
        (Some(percent), None) => format!("Each server had {percent} % of a core"),
        (Some(percent), Some(primary)) => {
            format!("Each server had {percent} % of a core, the primary {primary} %")
        }
    };
    let mut text = format!(
        "```sh\nmake bench-papers PAPERS={name}\n```\n\n{quota}, of {} cores; each point {time_s} s after {warm_up_s} s of \
         warm-up; {rounds} {}.\n\n",
        results.cores,
        if *rounds == 1 { "round" } else { "rounds" },
    );
    for plot in plots {
        let file = plot.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(text, "![{}]({file})\n", file.trim_end_matches(".svg"));
    }
    let tables = [results.verdicts().markdown(), summary(experiment, results.points).markdown()];
    text + &tables.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_leaves_what_people_wrote() {
        let page = format!("# fig\n\nfound\n\n{BEGIN}\nold\n{END}\n\nwhy\n");
        let new = with(&page, "new").unwrap();
        assert_eq!(new, format!("# fig\n\nfound\n\n{BEGIN}\n\nnew\n{END}\n\nwhy\n"));
        assert_eq!(with(&new, "new").unwrap(), new);
        assert_eq!(with("no marks", "new"), None);
    }
}
