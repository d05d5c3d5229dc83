//! What the papers' experiments came to is said twice: each page of `docs/experiments` has a verdict for each claim, and
//! their list says of each experiment, and of all together, how many claims are kept. Both say the same.

use std::collections::BTreeSet;
use std::ops::AddAssign;

use crate::dependencies::{cells, ticked};
use crate::tree::{Broken, Tree};

/// The pages of the experiments.
const FOLDER: &str = "docs/experiments/";

/// The list of them.
const LIST: &str = "docs/experiments/README.md";

/// The head of the list's last column.
const COLUMN: &str = "claims kept";

/// How many claims had which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verdicts {
    kept: usize,
    not_kept: usize,
    undecided: usize,
    not_shown: usize,
}

impl Verdicts {
    /// Those in the tables of a page: the last cell of a row is the verdict, behind a colon the reason.
    fn of(page: &str) -> Verdicts {
        let mut verdicts = Verdicts::default();
        for row in page.lines().filter(|line| line.starts_with('|')) {
            let verdict = cells(row).last().copied().unwrap_or_default();
            match verdict.split(':').next().unwrap_or_default() {
                "kept" => verdicts.kept += 1,
                "NOT KEPT" => verdicts.not_kept += 1,
                "undecided" => verdicts.undecided += 1,
                "cannot be shown here" => verdicts.not_shown += 1,
                _ => {}
            }
        }
        verdicts
    }

    fn claims(self) -> usize {
        self.kept + self.not_kept + self.undecided + self.not_shown
    }

    /// As the list says it of one experiment.
    fn cell(self) -> String {
        format!("{} of {}", self.kept, self.claims())
    }

    /// As the list says it of all of them.
    fn sentence(self) -> String {
        format!(
            "Of {} claims {} are kept, {} are not, {} are undecided, and {} cannot be shown here.",
            self.claims(),
            self.kept,
            self.not_kept,
            self.undecided,
            self.not_shown
        )
    }
}

impl AddAssign for Verdicts {
    fn add_assign(&mut self, other: Verdicts) {
        self.kept += other.kept;
        self.not_kept += other.not_kept;
        self.undecided += other.undecided;
        self.not_shown += other.not_shown;
    }
}

/// The list has a row for each page, with the verdicts of the page, and a sentence with those of all pages.
pub fn counted(tree: &Tree) -> Vec<Broken> {
    let Some(list) = tree.get(LIST) else {
        return vec![Broken::new(LIST, 0, "the list of experiments is gone")];
    };
    let (mut broken, mut all) = (Vec::new(), Verdicts::default());
    let rows = rows(list);
    for (line, name, says) in &rows {
        let Some(page) = tree.get(&format!("{FOLDER}{name}.md")) else {
            broken.push(Broken::new(LIST, *line, format!("{name}: no such page")));
            continue;
        };
        let verdicts = Verdicts::of(page);
        all += verdicts;
        if verdicts.cell() != *says {
            let why = format!("{name}: {says} by the list, {} by the page", verdicts.cell());
            broken.push(Broken::new(LIST, *line, why));
        }
    }
    let listed: BTreeSet<&str> = rows.iter().map(|(_, name, _)| name.as_str()).collect();
    let pages = tree.documents().filter(|(path, _)| *path != LIST);
    let names = pages.filter_map(|(path, _)| path.strip_prefix(FOLDER)?.strip_suffix(".md"));
    let unlisted = names.filter(|name| !listed.contains(name));
    broken.extend(unlisted.map(|name| Broken::new(LIST, 0, format!("{name} is not in the list"))));
    if !in_one_line(list).contains(&all.sentence()) {
        broken.push(Broken::new(LIST, 0, format!("by the pages it is: {}", all.sentence())));
    }
    broken
}

/// The rows of the table of experiments: line (from 1), name, and how many claims are kept.
fn rows(list: &str) -> Vec<(usize, String, &str)> {
    let lines = list.lines().enumerate();
    let table = lines.skip_while(|(_, line)| cells(line).last() != Some(&COLUMN));
    let rows = table.take_while(|(_, line)| line.starts_with('|')).skip(2);
    rows.filter_map(|(at, line)| {
        let cells = cells(line);
        let name = ticked(cells.first()?).into_iter().next()?;
        Some((at + 1, name, *cells.last()?))
    })
    .collect()
}

/// A sentence may be broken into lines anywhere.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "\
| the paper says | of | verdict |
|---|---|---|
| a | x | kept |
| what is kept is kept | x | NOT KEPT |
| b | x | cannot be shown here: nothing was measured |
| c | x | undecided |
";
    const OTHER: &str =
        "Two claims are kept:\n\n| a | x | kept: the clients had no time |\n| b | x | kept |\n";
    const TABLE: &str = "\
| experiment | what runs | claims kept |
|---|---|---|
| [`one`](one.md) | a `load` | 1 of 4 |
| [`other`](other.md) | another | 2 of 2 |
";
    const SENTENCE: &str =
        "Of 6 claims 3 are kept,\n1 are not, 1 are undecided, and 1 cannot be shown here. More.\n";

    fn tree(list: &str) -> Tree {
        Tree::of([("docs/experiments/one.md", ONE), ("docs/experiments/other.md", OTHER)]).with(LIST, list)
    }

    #[test]
    fn the_list_says_what_the_pages_say() {
        let list = format!("{TABLE}\n{SENTENCE}");
        assert_eq!(counted(&tree(&list)), []);
        let wrong = |from: &str, to: &str| counted(&tree(&list.replace(from, to)));
        assert_eq!(wrong("1 of 4", "2 of 4")[0].line, 3);
        for (from, to) in
            [("1 of 4", "1 of 3"), ("2 of 2", "two"), ("3 are", "4 are"), ("1 cannot", "one cannot")]
        {
            assert_eq!(wrong(from, to).len(), 1, "{from} -> {to}");
        }
        let found = wrong("| [`other`](other.md) | another | 2 of 2 |\n", "");
        assert_eq!(found.len(), 2, "{found:?}: a page without a row, and the sum of those that have one");
        assert_eq!(wrong("`other`", "`gone`").len(), 3, "no such page either");
        assert_eq!(counted(&Tree::default()).len(), 1, "no list");
    }
}
