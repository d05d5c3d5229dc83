//! A reader of the text that PostgreSQL makes of its own trees (`nodeToString`,
//! src/backend/nodes/outfuncs.c), as it arrives in the notice `rewritten parse tree:`. Generic: nodes with
//! labelled fields, lists, numbers. The meaning of each field is known in [`walk`].
//!
//! The text comes from a server and repeats names that a user chose, so the reader trusts nothing: it is
//! bounded in size and depth, has no recursion (the tree lies in an arena), and never panics. Two traps of
//! the format decide its shape. A name may look like a label (`:aliasname :relid`), so a label always takes
//! exactly the next value. Also, `format_node_dump` breaks lines at 78 bytes: at a space, which may be an
//! escaped one inside a name, or in the middle of a token that is longer than a line. A token broken this way
//! cannot be put together again and is refused.

mod forms;
mod meaning;
pub mod query;
pub mod walk;

use std::fmt;

/// More text than this is not read: a statement of that size stays at the primary.
pub const MAX_TREE_BYTES: usize = 4 << 20;
/// Deeper nesting of nodes and lists than this is not read.
pub const MAX_TREE_DEPTH: usize = 2_000;

const LINE_BYTES: usize = 78;

/// Why a tree could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// More than [`MAX_TREE_BYTES`].
    TooLarge,
    /// Deeper than [`MAX_TREE_DEPTH`].
    TooDeep,
    /// A token longer than a line was broken.
    BrokenToken,
    /// Brackets do not match, or something ends too early.
    Malformed,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unreadable::TooLarge => "the query tree is too large",
            Unreadable::TooDeep => "the query tree is too deep",
            Unreadable::BrokenToken => "a name in the query tree is broken over two lines",
            Unreadable::Malformed => "the query tree is not in PostgreSQL's format",
        })
    }
}

impl std::error::Error for Unreadable {}

/// A value in a tree. Nodes and lists lie in the [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'t> {
    /// `<>`: nothing there.
    Null,
    /// A bare word, escapes and quotes as written.
    Atom(&'t str),
    /// `{NAME :label value ..}`
    Node(NodeId),
    /// `(value ..)`; lists of numbers begin with the atom `i`, `o` or `b`.
    List(ListId),
    /// `length [ byte .. ]`, the value of a constant.
    Datum(ListId),
}

/// A node of one [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(usize);

/// A list of one [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListId(usize);

#[derive(Debug, Default)]
struct Node<'t> {
    name: &'t str,
    fields: Vec<(&'t str, Value<'t>)>,
}

/// A tree that was read, with its root.
#[derive(Debug)]
pub struct Tree<'t> {
    nodes: Vec<Node<'t>>,
    lists: Vec<Vec<Value<'t>>>,
    root: Value<'t>,
}

impl<'t> Tree<'t> {
    /// Reads one value, usually the list of queries that the rewriter left.
    pub fn read(text: &'t str) -> Result<Tree<'t>, Unreadable> {
        if text.len() > MAX_TREE_BYTES {
            return Err(Unreadable::TooLarge);
        }
        refuse_broken_tokens(text)?;
        let mut reader = Reader { nodes: Vec::new(), lists: Vec::new(), open: Vec::new(), root: None };
        for token in (Tokens { rest: text }) {
            reader.take(token)?;
        }
        match (reader.root, reader.open.is_empty()) {
            (Some(root), true) => Ok(Tree { nodes: reader.nodes, lists: reader.lists, root }),
            _ => Err(Unreadable::Malformed),
        }
    }

    /// The outermost value.
    pub fn root(&self) -> Value<'t> {
        self.root
    }

    /// Every node, in the order of the text.
    pub fn all(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId)
    }

    /// The node's name: `QUERY`, `VAR`, ..
    pub fn name(&self, node: NodeId) -> &'t str {
        self.nodes[node.0].name
    }

    /// All fields of a node in their order.
    pub fn fields(&self, node: NodeId) -> &[(&'t str, Value<'t>)] {
        &self.nodes[node.0].fields
    }

    /// The field with this label, [`Value::Null`] if it is missing.
    pub fn field(&self, node: NodeId, label: &str) -> Value<'t> {
        self.fields(node).iter().find(|(name, _)| *name == label).map_or(Value::Null, |(_, value)| *value)
    }

    /// True if the node has a field with this label.
    pub fn has(&self, node: NodeId, label: &str) -> bool {
        self.fields(node).iter().any(|(name, _)| *name == label)
    }

    /// The field's items; empty if it is no list.
    pub fn list(&self, node: NodeId, label: &str) -> &[Value<'t>] {
        self.items(self.field(node, label))
    }

    /// The items of a list or datum; empty for anything else.
    pub fn items(&self, value: Value<'t>) -> &[Value<'t>] {
        match value {
            Value::List(list) | Value::Datum(list) => &self.lists[list.0],
            _ => &[],
        }
    }

    /// The field's node.
    pub fn node(&self, node: NodeId, label: &str) -> Option<NodeId> {
        as_node(self.field(node, label))
    }

    /// The field's number.
    pub fn number(&self, node: NodeId, label: &str) -> Option<i64> {
        as_number(self.field(node, label))
    }

    /// The field's OID; 0 if it is missing.
    pub fn oid(&self, node: NodeId, label: &str) -> u32 {
        self.number(node, label).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    }

    /// True if the field is `true`.
    pub fn flag(&self, node: NodeId, label: &str) -> bool {
        self.field(node, label) == Value::Atom("true")
    }

    /// The numbers of a list of integers or OIDs or of a bitmap set: `(i 1 2)`, `(o 23 25)`, `(b 8 9)`. `None` if it is
    /// anything else.
    pub fn numbers(&self, value: Value<'t>) -> Option<Vec<i64>> {
        match (value, self.items(value)) {
            (Value::Null, _) => Some(Vec::new()),
            (Value::List(_), [Value::Atom("i" | "o" | "b"), numbers @ ..]) => {
                numbers.iter().map(|item| as_number(*item)).collect()
            }
            _ => None,
        }
    }

    /// The nodes of a list. Elements that are no nodes are left out.
    pub fn nodes(&self, node: NodeId, label: &str) -> impl Iterator<Item = NodeId> + '_ {
        self.list(node, label).iter().filter_map(|item| as_node(*item))
    }
}

/// The node, if it is one.
pub fn as_node(value: Value<'_>) -> Option<NodeId> {
    match value {
        Value::Node(node) => Some(node),
        _ => None,
    }
}

fn as_number(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Atom(word) => word.parse().ok(),
        _ => None,
    }
}

/// Refuses texts with broken tokens: a line without a space to break at was broken in the middle of a token.
/// If the server's encoding is not the one that we read, lines have other lengths. Then every long line
/// without a space is refused.
fn refuse_broken_tokens(text: &str) -> Result<(), Unreadable> {
    let limit = if text.is_ascii() { LINE_BYTES } else { LINE_BYTES / 3 };
    let broken = |line: &str| line.len() >= limit && !line.bytes().skip(1).any(|byte| byte == b' ');
    if text.split('\n').any(broken) { Err(Unreadable::BrokenToken) } else { Ok(()) }
}

#[derive(Clone, Copy)]
enum Token<'t> {
    OpenNode,
    CloseNode,
    OpenList,
    CloseList,
    Word(&'t str),
}

struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        let text = self.rest.trim_start_matches([' ', '\n', '\t', '\r']);
        let bytes = text.as_bytes();
        let token = match *bytes.first()? {
            b'{' => Some(Token::OpenNode),
            b'}' => Some(Token::CloseNode),
            b'(' => Some(Token::OpenList),
            b')' => Some(Token::CloseList),
            _ => None,
        };
        let length = if token.is_some() { 1 } else { word_length(bytes) };
        // A backslash may stand before a character of several bytes: end at the next whole one.
        let length = (length..=bytes.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(bytes.len());
        self.rest = &text[length..];
        Some(token.unwrap_or(Token::Word(&text[..length])))
    }
}

/// Up to a blank or a bracket that no backslash protects.
fn word_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b' ' | b'\n' | b'\t' | b'\r' | b'(' | b')' | b'{' | b'}' => break,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

enum Open<'t> {
    Node { node: usize, label: Option<&'t str> },
    List { list: usize },
    Datum { list: usize },
}

struct Reader<'t> {
    nodes: Vec<Node<'t>>,
    lists: Vec<Vec<Value<'t>>>,
    open: Vec<Open<'t>>,
    root: Option<Value<'t>>,
}

impl<'t> Reader<'t> {
    fn take(&mut self, token: Token<'t>) -> Result<(), Unreadable> {
        if self.root.is_some() && self.open.is_empty() {
            return Err(Unreadable::Malformed);
        }
        if self.open.len() > MAX_TREE_DEPTH {
            return Err(Unreadable::TooDeep);
        }
        match token {
            Token::OpenNode => {
                self.nodes.push(Node::default());
                let node = self.nodes.len() - 1;
                self.put(Value::Node(NodeId(node)));
                self.open.push(Open::Node { node, label: None });
            }
            Token::OpenList => {
                let list = self.new_list();
                self.put(Value::List(ListId(list)));
                self.open.push(Open::List { list });
            }
            Token::CloseNode => match self.open.pop() {
                Some(Open::Node { label: None, .. }) => {}
                _ => return Err(Unreadable::Malformed),
            },
            Token::CloseList => match self.open.pop() {
                Some(Open::List { .. }) => {}
                _ => return Err(Unreadable::Malformed),
            },
            Token::Word(word) => self.word(word)?,
        }
        Ok(())
    }

    fn word(&mut self, word: &'t str) -> Result<(), Unreadable> {
        match (self.open.last_mut(), word) {
            (Some(Open::Node { node, label: None }), _) if self.nodes[*node].name.is_empty() => {
                self.nodes[*node].name = word;
            }
            (Some(Open::Node { label: label @ None, .. }), _) if word.starts_with(':') => {
                *label = Some(&word[1..]);
            }
            (Some(Open::Datum { .. }), "]") => drop(self.open.pop()),
            (Some(Open::Node { label: None, node }), "[") => {
                let node = *node;
                self.open_datum(node)?;
            }
            // Raw statements have words without a label; none of them matters.
            (Some(Open::Node { label: None, .. }), _) => {}
            (Some(_), "<>") => self.put(Value::Null),
            (Some(_), _) => self.put(Value::Atom(word)),
            (None, "<>") => self.root = Some(Value::Null),
            (None, _) => return Err(Unreadable::Malformed),
        }
        Ok(())
    }

    /// `:constvalue 4 [ 5 0 0 0 ]`: the length was taken for the field's value; the bytes take its place.
    fn open_datum(&mut self, node: usize) -> Result<(), Unreadable> {
        let list = self.new_list();
        let (label, value) = self.nodes[node].fields.last_mut().ok_or(Unreadable::Malformed)?;
        if *label == "constvalue" {
            *value = Value::Datum(ListId(list));
        }
        self.open.push(Open::Datum { list });
        Ok(())
    }

    fn new_list(&mut self) -> usize {
        self.lists.push(Vec::new());
        self.lists.len() - 1
    }

    fn put(&mut self, value: Value<'t>) {
        match self.open.last_mut() {
            Some(Open::Node { node, label }) => {
                let label = label.take().unwrap_or("");
                self.nodes[*node].fields.push((label, value));
            }
            Some(Open::List { list } | Open::Datum { list }) => self.lists[*list].push(value),
            None => self.root = Some(value),
        }
    }
}

#[cfg(test)]
mod tests;
