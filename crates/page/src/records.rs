//! Which records are in this XML, however broken it is?
//!
//! Sitemaps and feeds are lists: one element per entry, a few elements in it whose text counts. So
//! nobody needs a tree. `quick-xml` cuts the text into tags; what opens and closes is judged here,
//! by names, as a person would: a new entry ends the last one, a new field ends the field before,
//! and an element that we do not know hides all that is in it until it ends.
//!
//! Always: no input panics; time grows with its length, for every place where the reader must begin
//! anew once more, and such places have a limit. What was read before damage is kept.
//!
//! Not here: what a field means (`sitemap`, `feed`).

use htmlize::unescape_attribute;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::complaints::Complaints;

/// How often reading begins anew behind damage. Each may look through all that is left.
pub(crate) const RESTARTS_MAX: usize = 64;

/// Names of hidden elements that are remembered; a deeper nest is no list of anything.
const HIDDEN_MAX: usize = 256;

/// Longest text of a field. Servers refuse a longer request line; titles are shorter still.
pub(crate) const FIELD_BYTES_MAX: usize = 8 << 10;

/// Fields of one record that are kept. An Atom entry has a dozen links at most.
const FIELDS_MAX: usize = 64;

/// An element's name: `image:loc` is `loc` with the prefix `image`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name<'a> {
    pub prefix: &'a str,
    pub local: &'a str,
}

impl<'a> Name<'a> {
    fn of(text: &'a str) -> Self {
        let text = text.trim();
        match text.split_once(':') {
            Some((prefix, local)) => Self { prefix, local },
            None => Self { prefix: "", local: text },
        }
    }

    pub fn is(&self, local: &str) -> bool {
        self.local.eq_ignore_ascii_case(local)
    }

    pub fn is_one_of(&self, locals: &[&str]) -> bool {
        locals.iter().any(|local| self.is(local))
    }
}

/// What a list is made of.
pub(crate) struct Form<'a> {
    /// Elements that are entries.
    pub is_entry: &'a dyn Fn(Name<'_>) -> bool,
    /// Elements in an entry whose text or attributes count.
    pub is_field: &'a dyn Fn(Name<'_>) -> bool,
    /// Entries that are read; behind them reading ends.
    pub records_max: usize,
}

/// One element of an entry.
#[derive(Debug, Default)]
pub(crate) struct Field {
    /// `prefix:local`, in lower case.
    pub name: String,
    pub text: String,
    pub attributes: Vec<(String, String)>,
    /// Its text is longer than is kept.
    pub cut: bool,
}

impl Field {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let mut all = self.attributes.iter();
        all.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// An entry with its fields, in their order. The first is the entry's own element.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub fields: Vec<Field>,
}

impl Record {
    /// The first field of this name that says something.
    pub fn text(&self, name: &str) -> Option<&str> {
        let all = self.fields.iter().filter(|field| field.name == name && !field.cut);
        all.map(|field| field.text.trim()).find(|text| !text.is_empty())
    }
}

/// Reads all records behind `from`, which is where the root's tag begins.
pub(crate) fn read(
    xml: &str,
    from: usize,
    form: &Form<'_>,
    complaints: &mut Complaints,
    mut take: impl FnMut(&Record, &mut Complaints),
) {
    let mut list = List { form, open: None, field: false, hidden: Vec::new(), records: 0 };
    let mut at = from;
    for _ in 0..=RESTARTS_MAX {
        let mut reader = reader(&xml[at..]);
        loop {
            match reader.read_event() {
                Ok(Event::Eof) => return list.end(complaints, &mut take),
                Ok(event) => {
                    if list.on(&event, complaints, &mut take).is_full() {
                        let what =
                            format!("more than {} entries: the rest is not read", form.records_max);
                        return complaints.add(what);
                    }
                }
                Err(error) => {
                    let offset = usize::try_from(reader.error_position()).unwrap_or(usize::MAX);
                    complaints.add(format!("broken XML at byte {}: {error}", at + offset));
                    let Some(next) = next_tag(xml, at.saturating_add(offset)) else {
                        return list.end(complaints, &mut take);
                    };
                    at = next;
                    break;
                }
            }
        }
    }
    complaints.add(format!("broken in more than {RESTARTS_MAX} places: the rest is not read"));
    list.end(complaints, &mut take);
}

/// A start tag, and where it is.
pub(crate) struct Tag<'a> {
    pub at: usize,
    pub name: Name<'a>,
    /// Behind the name, as written.
    pub attributes: Vec<(String, String)>,
}

/// The first start tag for which `wanted` holds, within the first `bytes_max`.
pub(crate) fn find_tag<'a>(
    xml: &'a str,
    bytes_max: usize,
    wanted: &dyn Fn(Name<'_>) -> bool,
) -> Option<Tag<'a>> {
    let mut at = 0;
    for _ in 0..=RESTARTS_MAX {
        let mut reader = reader(&xml[at..]);
        loop {
            let begin = at + usize::try_from(reader.buffer_position()).ok()?;
            if begin > bytes_max {
                return None;
            }
            match reader.read_event() {
                Ok(Event::Eof) => return None,
                Ok(Event::Start(tag) | Event::Empty(tag)) => {
                    // The text of a tag is a piece of the input; its place there is its start.
                    if wanted(Name::of(tag.name().as_ref())) {
                        let text = &xml[begin + 1..begin + 1 + tag.name().as_ref().len()];
                        let attributes = attributes(&tag);
                        return Some(Tag { at: begin, name: Name::of(text), attributes });
                    }
                }
                Ok(_) => {}
                Err(_) => {
                    let offset = usize::try_from(reader.error_position()).ok()?;
                    at = next_tag(xml, at + offset)?;
                    break;
                }
            }
        }
    }
    None
}

/// Takes what is not well-formed as it comes.
pub(crate) fn reader(xml: &str) -> Reader<&[u8]> {
    let mut reader = Reader::from_str(xml);
    let config = reader.config_mut();
    config.allow_dangling_amp = true;
    config.allow_unmatched_ends = true;
    config.check_end_names = false;
    reader
}

/// Where the next tag may begin, behind the one that is broken.
pub(crate) fn next_tag(xml: &str, broken: usize) -> Option<usize> {
    let bytes = xml.as_bytes();
    let from = broken.checked_add(1)?;
    Some(from + memchr::memchr(b'<', bytes.get(from..)?)?)
}

/// Names in lower case, values without references.
pub(crate) fn attributes(tag: &BytesStart<'_>) -> Vec<(String, String)> {
    let mut all = tag.html_attributes();
    let kept = all.with_checks(false).take(FIELDS_MAX).flatten();
    let kept = kept.filter(|attribute| attribute.value.len() <= FIELD_BYTES_MAX);
    kept.map(|attribute| {
        let value = unescape_attribute(attribute.value.as_ref()).into_owned();
        (attribute.key.as_ref().to_ascii_lowercase(), value)
    })
    .collect()
}

#[derive(PartialEq, Eq)]
enum Room {
    Left,
    Full,
}

impl Room {
    fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

struct List<'f> {
    form: &'f Form<'f>,
    open: Option<Record>,
    /// Whether the last field of the open record takes text.
    field: bool,
    /// Names of open elements that hide what is in them.
    hidden: Vec<String>,
    records: usize,
}

impl List<'_> {
    fn on(
        &mut self,
        event: &Event<'_>,
        complaints: &mut Complaints,
        take: &mut impl FnMut(&Record, &mut Complaints),
    ) -> Room {
        match event {
            Event::Start(tag) => return self.begin(tag, false, complaints, take),
            Event::Empty(tag) => return self.begin(tag, true, complaints, take),
            Event::End(tag) => {
                let name = tag.name();
                self.close(Name::of(name.as_ref()), complaints, take);
            }
            Event::Text(text) => self.add(text),
            Event::CData(text) => self.add_plain(text),
            Event::GeneralRef(name) => {
                // The dangling ones came as text; `?a=1&b=2;` comes like a reference.
                self.add(&format!("&{};", &**name));
            }
            _ => {}
        }
        Room::Left
    }

    fn begin(
        &mut self,
        tag: &BytesStart<'_>,
        empty: bool,
        complaints: &mut Complaints,
        take: &mut impl FnMut(&Record, &mut Complaints),
    ) -> Room {
        let name = tag.name();
        let name = Name::of(name.as_ref());
        if (self.form.is_entry)(name) {
            if self.open.is_some() {
                complaints.add(format!("entry {}: its end tag is missing", self.records));
                self.flush(complaints, take);
            }
            if self.records == self.form.records_max {
                return Room::Full;
            }
            self.records += 1;
            self.open = Some(Record { fields: vec![new_field(name, tag)] });
            if empty {
                self.flush(complaints, take);
            }
            return Room::Left;
        }
        let Some(record) = &mut self.open else { return Room::Left };
        if self.hidden.is_empty() && (self.form.is_field)(name) {
            if record.fields.len() < FIELDS_MAX {
                record.fields.push(new_field(name, tag));
                self.field = !empty;
            } else {
                self.field = false;
            }
        } else if !empty && self.hidden.len() < HIDDEN_MAX {
            self.hidden.push(name.local.to_ascii_lowercase());
        }
        Room::Left
    }

    fn close(
        &mut self,
        name: Name<'_>,
        complaints: &mut Complaints,
        take: &mut impl FnMut(&Record, &mut Complaints),
    ) {
        if self.open.is_none() {
            return;
        }
        if (self.form.is_entry)(name) {
            self.flush(complaints, take);
        } else if let Some(at) = self.hidden.iter().rposition(|hidden| name.is(hidden)) {
            self.hidden.truncate(at);
        } else if self.is_open_field(name) {
            // Whatever was left open in it, such as the markup of a text, ends with it.
            self.hidden.clear();
            self.field = false;
        }
    }

    fn is_open_field(&self, name: Name<'_>) -> bool {
        let last = self.open.as_ref().and_then(|record| record.fields.last());
        let local = |field: &Field| name.is(field.name.rsplit(':').next().unwrap_or_default());
        self.field && last.is_some_and(local)
    }

    /// Text with references.
    fn add(&mut self, text: &str) {
        if self.takes_text() {
            // As in an attribute: there `&lang=en` is what it looks like.
            self.add_plain(&unescape_attribute(text));
        }
    }

    fn add_plain(&mut self, text: &str) {
        if !self.takes_text() {
            return;
        }
        let field = self.open.as_mut().and_then(|record| record.fields.last_mut());
        let Some(field) = field else { return };
        if field.text.len() + text.len() > FIELD_BYTES_MAX {
            field.cut = true;
        } else {
            field.text.push_str(text);
        }
    }

    fn takes_text(&self) -> bool {
        self.field && self.hidden.is_empty()
    }

    fn flush(
        &mut self,
        complaints: &mut Complaints,
        take: &mut impl FnMut(&Record, &mut Complaints),
    ) {
        self.field = false;
        self.hidden.clear();
        if let Some(record) = self.open.take() {
            take(&record, complaints);
        }
    }

    /// The text has ended. A field that is open then was cut, maybe within a URL; what stands
    /// before it in its entry is whole.
    fn end(
        &mut self,
        complaints: &mut Complaints,
        take: &mut impl FnMut(&Record, &mut Complaints),
    ) {
        let Some(record) = &mut self.open else { return };
        complaints.add(format!("it ends within entry {}", self.records));
        if self.field {
            record.fields.pop();
        }
        if record.fields.len() > 1 {
            self.flush(complaints, take);
        }
    }
}

fn new_field(name: Name<'_>, tag: &BytesStart<'_>) -> Field {
    let local = name.local.to_ascii_lowercase();
    let name = match name.prefix {
        "" => local,
        prefix => format!("{}:{local}", prefix.to_ascii_lowercase()),
    };
    Field { name, attributes: attributes(tag), ..Field::default() }
}
