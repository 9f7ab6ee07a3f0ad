//! How does a text, or what a file holds, become the value of a key?
//!
//! The key's kind decides: strings as they are (quotes optional), lists as a TOML array or comma
//! separated, durations and sizes with a unit (0 needs none). The value itself is judged by the
//! field's own type, afterwards.

use toml::Value;

use super::keys::{Key, Kind};

/// Reads what stands behind `-s key=` or in an environment variable. `None` unsets the key.
pub fn from_text(key: &Key, text: &str) -> Result<Option<Value>, String> {
    let text = text.trim();
    if key.optional && (text.is_empty() || text == "none") {
        return Ok(None);
    }
    read(&key.kind, text).map(Some)
}

fn read(kind: &Kind, text: &str) -> Result<Value, String> {
    let text = text.trim();
    Ok(match kind {
        Kind::Text | Kind::Choice(_) | Kind::Duration | Kind::Size | Kind::Rate => {
            Value::String(unquoted(text))
        }
        Kind::Integer => Value::Integer(integer(text)?),
        Kind::Number => Value::Float(
            text.parse().map_err(|_| format!("`{text}` is not a number: write it as 1.5"))?,
        ),
        Kind::Flag => match text {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            _ => return Err(format!("`{text}` is not a yes or no: write true or false")),
        },
        Kind::Either => match text.parse() {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::String(unquoted(text)),
        },
        Kind::List(of) => list(of, text)?,
        Kind::Map => {
            let hint = || format!("`{text}` is not a table: write it as {{ Name = \"value\" }}");
            if !text.starts_with('{') {
                return Err(hint());
            }
            parsed(text).ok_or_else(hint)?
        }
    })
}

/// Underscores may group digits, as in TOML.
fn integer(text: &str) -> Result<i64, String> {
    let digits = text.replace('_', "");
    digits.parse().map_err(|_| format!("`{text}` is not a whole number: write it as 1000"))
}

fn list(of: &Kind, text: &str) -> Result<Value, String> {
    if text.starts_with('[') {
        return parsed(text).ok_or_else(|| {
            format!("`{text}` is not a list: write it as [\"a\", \"b\"] or as a,b")
        });
    }
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| read(of, item)).collect::<Result<_, _>>().map(Value::Array)
}

/// The text as the value of a line of TOML.
fn parsed(text: &str) -> Option<Value> {
    let mut table: toml::Table = toml::from_str(&format!("value = {text}")).ok()?;
    table.remove("value").filter(|_| table.is_empty())
}

fn unquoted(text: &str) -> String {
    let quoted = text.len() > 1
        && (text.starts_with('"') && text.ends_with('"')
            || text.starts_with('\'') && text.ends_with('\''));
    match parsed(text).filter(|_| quoted) {
        Some(Value::String(inner)) => inner,
        _ => text.to_owned(),
    }
}

/// Takes a value as a file holds it; mends what people write, and says what else to write.
pub fn from_file(key: &Key, value: Value) -> Result<Option<Value>, String> {
    if key.optional && value.as_str() == Some("none") {
        return Ok(None);
    }
    mend(&key.kind, value).map(Some)
}

fn mend(kind: &Kind, value: Value) -> Result<Value, String> {
    match (kind, value) {
        (Kind::Duration | Kind::Size | Kind::Rate, Value::Integer(0)) => {
            Ok(Value::String("0".to_owned()))
        }
        (Kind::Duration, Value::Integer(n)) => {
            Err(format!("{n} has no unit: write it as \"{n}s\" or \"{n}ms\""))
        }
        (Kind::Size, Value::Integer(n)) => {
            Err(format!("{n} has no unit: write it as \"{n}B\" or \"{n}MiB\""))
        }
        (Kind::Rate, Value::Integer(n)) => {
            Err(format!("{n} has no unit: write it as \"{n}B/s\" or \"{n}KiB/s\""))
        }
        (Kind::Number, Value::Integer(n)) => Ok(Value::Float(n as f64)),
        (Kind::List(of), Value::Array(items)) => {
            items.into_iter().map(|item| mend(of, item)).collect::<Result<_, _>>().map(Value::Array)
        }
        // One alone is a list of one.
        (Kind::List(of), value @ (Value::String(_) | Value::Integer(_))) => {
            Ok(Value::Array(vec![mend(of, value)?]))
        }
        (_, value) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: Kind) -> Key {
        Key {
            path: "a.b".to_owned(),
            name: "b".to_owned(),
            kind,
            optional: true,
            doc: String::new(),
        }
    }

    fn text(kind: Kind, text: &str) -> Result<Option<Value>, String> {
        from_text(&key(kind), text)
    }

    #[test]
    fn strings_are_taken_as_they_are_and_quotes_are_optional() {
        for given in ["a b", "\"a b\"", "'a b'", "  a b "] {
            assert_eq!(text(Kind::Text, given), Ok(Some(Value::from("a b"))), "{given}");
        }
        assert_eq!(text(Kind::Text, "\"a\" b"), Ok(Some(Value::from("\"a\" b"))));
        assert_eq!(text(Kind::Text, "\""), Ok(Some(Value::from("\""))));
    }

    #[test]
    fn lists_are_arrays_or_comma_separated() {
        let list = || Kind::List(Box::new(Kind::Text));
        let two = Value::Array(vec!["a".into(), "b".into()]);
        for given in ["a,b", "a, b,", "[\"a\", \"b\"]", "['a','b']", "\"a\",b"] {
            assert_eq!(text(list(), given), Ok(Some(two.clone())), "{given}");
        }
        assert_eq!(text(list(), "[]"), Ok(Some(Value::Array(vec![]))));
        assert!(text(list(), "[a, b]").unwrap_err().contains("[\"a\", \"b\"]"));
        let ports = text(Kind::List(Box::new(Kind::Either)), "80,8000-8100").unwrap().unwrap();
        assert_eq!(ports, Value::Array(vec![80.into(), "8000-8100".into()]));
    }

    #[test]
    fn numbers_and_flags_say_what_to_write() {
        assert_eq!(text(Kind::Integer, "1_000"), Ok(Some(1000.into())));
        assert!(text(Kind::Integer, "x").unwrap_err().contains("1000"));
        assert_eq!(text(Kind::Flag, "false"), Ok(Some(false.into())));
        assert!(text(Kind::Flag, "no").unwrap_err().contains("true or false"));
        assert_eq!(text(Kind::Number, "2"), Ok(Some(2.0.into())));
        assert_eq!(text(Kind::Integer, "none"), Ok(None));
        assert_eq!(text(Kind::Integer, ""), Ok(None));
    }

    #[test]
    fn a_number_in_a_file_that_wants_a_unit_is_told_so() {
        let from = |kind, value: Value| from_file(&key(kind), value);
        assert!(from(Kind::Duration, 5.into()).unwrap_err().contains("\"5s\""));
        assert_eq!(from(Kind::Duration, 0.into()), Ok(Some("0".into())));
        assert!(from(Kind::Size, 5.into()).unwrap_err().contains("\"5MiB\""));
        assert_eq!(from(Kind::Number, 2.into()), Ok(Some(2.0.into())));
    }
}
