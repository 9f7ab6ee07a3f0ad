//! `lycosa tool sitemap`, `simhash` and `neardup` as filters.

use crate::common::feed;

/// The lines that come out for these.
fn filtered(tool: &str, input: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let ran = feed(folder.path(), &["tool", tool], input).exits(0);
    ran.out.lines().map(str::to_owned).collect()
}

#[test]
fn a_sitemap_comes_out_as_the_contract_says() {
    // <urlset><url><loc>/a</loc><lastmod>Fri, 05 Jan 2024 10:11:12 GMT</lastmod></url></urlset>,
    // then https://a.test/1, then <html>.
    let lines = filtered(
        "sitemap",
        r#"{"id":1,"url":"https://a.test/s.xml","body_base64":"PHVybHNldD48dXJsPjxsb2M+L2E8L2xvYz48bGFzdG1vZD5GcmksIDA1IEphbiAyMDI0IDEwOjExOjEyIEdNVDwvbGFzdG1vZD48L3VybD48L3VybHNldD4="}
{"url":"https://a.test/s.txt","body_base64":"aHR0cHM6Ly9hLnRlc3QvMQ","content_type":"text/plain"}
{"url":"https://a.test/s.txt","body_base64":"PGh0bWw+"}
{"id":"x","url":"https://a.test/s.txt","body_base64":"*"}
nonsense
"#,
    );
    assert_eq!(
        lines[..3],
        [
            r#"{"id":1,"kind":"urlset","urls":[{"loc":"https://a.test/a","lastmod":"2024-01-05T10:11:12Z","changefreq":null,"priority":null}],"errors":[]}"#,
            r#"{"kind":"text","urls":[{"loc":"https://a.test/1","lastmod":null,"changefreq":null,"priority":null}],"errors":[]}"#,
            r#"{"kind":null,"error":"an HTML page, not a sitemap","urls":[],"errors":[]}"#,
        ]
    );
    assert!(lines[3].starts_with(r#"{"id":"x","error":"body_base64: "#), "{}", lines[3]);
    assert!(lines[4].starts_with(r#"{"error":"not JSON"#), "{}", lines[4]);
    assert_eq!(lines.len(), 5);
}

#[test]
fn a_simhash_has_sixteen_digits_and_the_digest_is_of_the_normal_form() {
    let lines = filtered(
        "simhash",
        "{\"id\":1,\"text\":\"Hello,  World\"}\n{\"text\":\"hello, world\\n\"}\n{\"text\":7}\n",
    );
    // sha256sum of `hello, world`.
    let digest = "09ca7e4eaa6e8ae9c7d261167129184883644d07dfba7cbfbc4c8a2e08360d5b";
    assert!(lines[0].starts_with(r#"{"id":1,"simhash":""#), "{}", lines[0]);
    assert!(lines[0].ends_with(&format!(r#""text_sha256":"{digest}"}}"#)), "{}", lines[0]);
    assert_eq!(lines[0].replace(r#""id":1,"#, ""), lines[1]);
    assert_eq!(lines[1].len(), r#"{"simhash":"0123456789abcdef","text_sha256":""}"#.len() + 64);
    assert!(lines[2].starts_with(r#"{"error":"#), "{}", lines[2]);
}

#[test]
fn near_duplicates_are_named_in_order() {
    let text = |n: usize| -> String {
        (0..200).map(|word| format!("word{} ", (word * word + n * 7_919) % 1_000_003)).collect()
    };
    let mut input = String::new();
    for n in 0..2_000 {
        // Every tenth is the one before it, with a word changed.
        let text = match n % 10 {
            9 => text(n - 1).replacen("word", "other", 1),
            _ => text(n),
        };
        input += &format!("{{\"id\":{n},\"text\":\"{text}\"}}\n");
    }
    let lines = filtered("neardup", &input);
    assert_eq!(lines.len(), 2_000);
    for (n, line) in lines.iter().enumerate() {
        if n % 10 == 9 {
            let start = format!(r#"{{"id":{n},"duplicate_of":{},"kind":"near","distance":"#, n - 1);
            assert!(line.starts_with(&start), "{line}");
        } else {
            let want = format!(r#"{{"id":{n},"duplicate_of":null,"kind":null,"distance":null}}"#);
            assert_eq!(*line, want);
        }
    }
}
