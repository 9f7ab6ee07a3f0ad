//! What text does a page of a PDF show, and where?
//!
//! The content of a page is a program: it moves, chooses a font and shows strings. It is run as far as
//! text goes. Pieces keep the order in which they are shown; what follows on the same line is
//! joined, a gap is a space, a new line a line break, a larger step down a new paragraph.
//!
//! Always: bounded in steps, in nested forms and in text.

use std::collections::HashMap;
use std::rc::Rc;

use super::file::File;
use super::font::Font;
use super::object::{Dict, Object, Parser, is_space};

/// Operators of all pages. A dense page has some ten thousand.
const STEPS_MAX: u32 = 4_000_000;

/// Forms within forms, and forms that are run altogether.
const FORMS_DEEP_MAX: usize = 6;
const FORMS_MAX: u32 = 20_000;

/// Operands that wait for their operator.
const OPERANDS_MAX: usize = 64;

/// Saved states.
const STATES_MAX: usize = 256;

/// A piece of text on one line, in one size.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Where it begins and ends, in units of the page, from below.
    pub(super) from: (f32, f32),
    pub(super) to: (f32, f32),
    pub(super) size: f32,
}

/// Runs the pages of a file, one after the other.
#[derive(Debug)]
pub(super) struct Showing<'f, 'b> {
    file: &'f File<'b>,
    fonts: HashMap<u32, Rc<Font>>,
    steps: u32,
    forms_left: u32,
    text_left: usize,
}

/// Six numbers that move, turn and scale.
type Matrix = [f32; 6];

const UNMOVED: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];

/// First `a`, then `b`.
fn joined(a: &Matrix, b: &Matrix) -> Matrix {
    [
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
        a[4] * b[0] + a[5] * b[2] + b[4],
        a[4] * b[1] + a[5] * b[3] + b[5],
    ]
}

#[derive(Clone)]
struct State {
    page: Matrix,
    font: Option<Rc<Font>>,
    size: f32,
    letter_space: f32,
    word_space: f32,
    stretch: f32,
    leading: f32,
    rise: f32,
}

struct Run<'r> {
    resources: &'r Dict,
    state: State,
    saved: Vec<State>,
    text: Matrix,
    line: Matrix,
    pieces: &'r mut Vec<Piece>,
}

impl<'f, 'b> Showing<'f, 'b> {
    pub(super) fn new(file: &'f File<'b>, text_bytes_max: usize) -> Self {
        Self {
            file,
            fonts: HashMap::new(),
            steps: STEPS_MAX,
            forms_left: FORMS_MAX,
            text_left: text_bytes_max,
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.steps == 0 || self.text_left == 0 || !self.file.pay(1)
    }

    /// The text of one page.
    pub(super) fn page(&mut self, page: &Dict, resources: &Dict) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let contents = match page.get("Contents") {
            Some(Object::Reference(number)) => match self.file.numbered(*number) {
                Object::List(list) => list,
                _ => vec![Object::Reference(*number)],
            },
            Some(Object::List(list)) => list.clone(),
            _ => Vec::new(),
        };
        let mut program = Vec::new();
        for part in contents.iter().take(1_000) {
            if let Some((_, bytes)) = self.file.stream(part) {
                program.extend(bytes);
                program.push(b'\n');
            }
        }
        self.run(&program, resources, UNMOVED, 0, &mut pieces);
        pieces
    }

    fn run(
        &mut self,
        program: &[u8],
        resources: &Dict,
        page: Matrix,
        depth: usize,
        pieces: &mut Vec<Piece>,
    ) {
        let state = State {
            page,
            font: None,
            size: 0.0,
            letter_space: 0.0,
            word_space: 0.0,
            stretch: 1.0,
            leading: 0.0,
            rise: 0.0,
        };
        let mut run =
            Run { resources, state, saved: Vec::new(), text: UNMOVED, line: UNMOVED, pieces };
        let mut parser = Parser::content(program);
        let mut operands: Vec<Object> = Vec::new();
        while let Some(object) = parser.next() {
            match object {
                Object::Word(word) => {
                    if self.is_spent() {
                        return;
                    }
                    self.steps -= 1;
                    match word.as_slice() {
                        b"ID" => skip_picture(&mut parser),
                        b"Do" => self.form(&operands, &run.state, resources, depth, run.pieces),
                        word => self.operate(word, &operands, &mut run),
                    }
                    operands.clear();
                }
                object if operands.len() < OPERANDS_MAX => operands.push(object),
                _ => {}
            }
        }
    }

    /// A form: a program of its own, with a place and resources of its own.
    fn form(
        &mut self,
        operands: &[Object],
        state: &State,
        resources: &Dict,
        depth: usize,
        pieces: &mut Vec<Piece>,
    ) {
        let Some(name) = operands.last().and_then(Object::name) else { return };
        let all = self.file.member(resources, "XObject");
        let name = String::from_utf8_lossy(name);
        let Some(form) = all.dict().and_then(|all| all.get(&name)) else { return };
        let head = self.file.get(form);
        let is_form = head
            .dict()
            .is_some_and(|head| self.file.member(head, "Subtype").name() == Some(b"Form"));
        if depth >= FORMS_DEEP_MAX || self.forms_left == 0 || !is_form {
            return;
        }
        self.forms_left -= 1;
        let Some((dict, program)) = self.file.stream(form) else { return };
        let matrix = self.file.member(&dict, "Matrix");
        let matrix = matrix.list().and_then(matrix_of).unwrap_or(UNMOVED);
        let own = self.file.member(&dict, "Resources");
        let resources = own.dict().unwrap_or(resources);
        self.run(&program, resources, joined(&matrix, &state.page), depth + 1, pieces);
    }

    fn operate(&mut self, word: &[u8], operands: &[Object], run: &mut Run<'_>) {
        let number = |at: usize| operands.get(at).and_then(Object::number).unwrap_or(0.0) as f32;
        match word {
            b"q" if run.saved.len() < STATES_MAX => run.saved.push(run.state.clone()),
            b"Q" => {
                if let Some(state) = run.saved.pop() {
                    run.state = state;
                }
            }
            b"cm" => {
                if let Some(matrix) = matrix_of(operands) {
                    run.state.page = joined(&matrix, &run.state.page);
                }
            }
            b"BT" => (run.text, run.line) = (UNMOVED, UNMOVED),
            b"Tf" => {
                run.state.font = operands.first().and_then(|name| self.font(name, run.resources));
                run.state.size = number(1);
            }
            b"Tc" => run.state.letter_space = number(0),
            b"Tw" => run.state.word_space = number(0),
            b"Tz" => run.state.stretch = number(0) / 100.0,
            b"TL" => run.state.leading = number(0),
            b"Ts" => run.state.rise = number(0),
            b"Td" => run.step(number(0), number(1)),
            b"TD" => {
                run.state.leading = -number(1);
                run.step(number(0), number(1));
            }
            b"T*" => run.step(0.0, -run.state.leading),
            b"Tm" => {
                if let Some(matrix) = matrix_of(operands) {
                    (run.text, run.line) = (matrix, matrix);
                }
            }
            b"Tj" => self.show(operands, run),
            b"'" => {
                run.step(0.0, -run.state.leading);
                self.show(operands, run);
            }
            b"\"" => {
                (run.state.word_space, run.state.letter_space) = (number(0), number(1));
                run.step(0.0, -run.state.leading);
                self.show(operands.get(2..).unwrap_or_default(), run);
            }
            b"TJ" => self.show(operands.first().and_then(Object::list).unwrap_or_default(), run),
            _ => {}
        }
    }

    fn font(&mut self, name: &Object, resources: &Dict) -> Option<Rc<Font>> {
        let fonts = self.file.member(resources, "Font");
        let name = String::from_utf8_lossy(name.name()?).into_owned();
        let font = fonts.dict()?.get(&name)?;
        let number = match font {
            Object::Reference(number) => Some(*number),
            _ => None,
        };
        if let Some(known) = number.and_then(|number| self.fonts.get(&number)) {
            return Some(Rc::clone(known));
        }
        let made = Rc::new(Font::of(self.file, self.file.get(font).dict()?));
        if let Some(number) = number {
            self.fonts.insert(number, Rc::clone(&made));
        }
        Some(made)
    }

    /// Strings, and numbers that move back between them.
    fn show(&mut self, strings: &[Object], run: &mut Run<'_>) {
        let Some(font) = run.state.font.clone() else { return };
        for object in strings {
            match object {
                Object::String(string) => self.show_string(string, &font, run),
                Object::Number(back) => {
                    let by = -*back as f32 / 1000.0 * run.state.size * run.state.stretch;
                    run.text = joined(&[1.0, 0.0, 0.0, 1.0, by, 0.0], &run.text);
                }
                _ => {}
            }
        }
    }

    fn show_string(&mut self, string: &[u8], font: &Font, run: &mut Run<'_>) {
        let state = &run.state;
        let mut piece =
            Piece { text: String::new(), from: run.place(), to: (0.0, 0.0), size: run.size() };
        let mut by = 0.0;
        font.read(string, |text, width, is_space| {
            piece.text.push_str(text);
            let extra = if is_space { state.word_space } else { 0.0 };
            by += (width / 1000.0 * state.size + state.letter_space + extra) * state.stretch;
        });
        run.text = joined(&[1.0, 0.0, 0.0, 1.0, by, 0.0], &run.text);
        piece.to = run.place();
        self.text_left = self.text_left.saturating_sub(piece.text.len());
        let is_placed =
            [piece.from.0, piece.from.1, piece.to.0, piece.size].iter().all(|n| n.is_finite());
        if !piece.text.is_empty() && is_placed {
            run.pieces.push(piece);
        }
    }
}

impl Run<'_> {
    fn step(&mut self, x: f32, y: f32) {
        self.line = joined(&[1.0, 0.0, 0.0, 1.0, x, y], &self.line);
        self.text = self.line;
    }

    fn place(&self) -> (f32, f32) {
        let matrix = joined(&self.text, &self.state.page);
        (matrix[4], matrix[5] + self.state.rise)
    }

    /// The size of letters on the page.
    fn size(&self) -> f32 {
        let matrix = joined(&self.text, &self.state.page);
        self.state.size.abs() * matrix[2].hypot(matrix[3])
    }
}

fn matrix_of(list: &[Object]) -> Option<Matrix> {
    let mut matrix = UNMOVED;
    for (place, object) in matrix.iter_mut().zip(list.get(..6)?) {
        *place = object.number()? as f32;
    }
    Some(matrix)
}

/// A picture in the middle of a program: everything up to `EI` is bytes.
fn skip_picture(parser: &mut Parser<'_>) {
    let rest = &parser.bytes[parser.at..];
    let end = memchr::memmem::find_iter(rest, b"EI").find(|&at| {
        let before = at.checked_sub(1).and_then(|before| rest.get(before));
        before.is_none_or(|byte| is_space(*byte))
            && rest.get(at + 2).is_none_or(|byte| is_space(*byte))
    });
    parser.at += end.map_or(rest.len(), |end| end + 2);
}

/// Pieces as lines and paragraphs.
pub(super) fn lines(pieces: &[Piece]) -> String {
    let mut out = String::new();
    let mut before: Option<&Piece> = None;
    for piece in pieces {
        if let Some(before) = before {
            out.push_str(between(before, piece));
        }
        out.push_str(&piece.text);
        before = Some(piece);
    }
    tidy(&out)
}

/// What stands between two pieces.
fn between(before: &Piece, after: &Piece) -> &'static str {
    let size = before.size.max(after.size).max(1.0);
    let (down, right) = (before.to.1 - after.from.1, after.from.0 - before.to.0);
    if down.abs() < 0.5 * size {
        // On one line: further right, or back to where another column begins.
        if right < -2.0 * size {
            "\n"
        } else if right > 0.15 * size {
            " "
        } else {
            ""
        }
    } else if (0.0..=1.75 * before.size.min(after.size).max(1.0)).contains(&down) {
        "\n"
    } else {
        "\n\n"
    }
}

/// Single spaces, no blanks at the ends of lines, no more than one empty line.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines() {
        let from = out.len();
        for word in line.split_whitespace() {
            if out.len() > from {
                out.push(' ');
            } else if from > 0 {
                out.push_str(if empty > 0 { "\n\n" } else { "\n" });
            }
            out.push_str(word);
        }
        let was_empty = out.len() == from;
        empty = if was_empty { empty + 1 } else { 0 };
    }
    out
}
