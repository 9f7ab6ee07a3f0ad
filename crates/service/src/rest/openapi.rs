//! `GET /openapi.json`: what can be asked here, and how it is answered.
//!
//! Requests and answers are described by the types that are read and written, so that the description
//! cannot say anything else than the code.

use axum::Json;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{answer, hosts, lease, stats, urls};

/// The description.
pub(super) async fn openapi() -> Json<Value> {
    Json(describe())
}

/// One thing that can be asked.
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// Parameters in the path and in the query.
    parameters: Value,
    body: Option<Value>,
    answer: Value,
    /// How it may be refused, beside what holds for all.
    refusals: Vec<(&'static str, &'static str)>,
}

type Refusals = [(&'static str, &'static str)];

/// How a body may be refused, and what else.
fn bad_body(more: &Refusals) -> Vec<(&'static str, &'static str)> {
    let all = [
        ("400", "Not JSON, or a bad parameter"),
        ("413", "Too large"),
        ("422", "JSON, but not what is expected here"),
    ];
    [&all, more].concat()
}

fn describe() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = SchemaGenerator::new(settings);
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations(&mut schemas) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = told(&operation);
    }
    let mut components = schemas.take_definitions(true);
    components.insert("Error".to_owned(), schemas.root_schema_for::<answer::Error>().into());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "The frontier of a lycosa crawl",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Put URLs in, take leases out, say what became of them.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "Needed where api.token is set.",
            }},
        },
    })
}

fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    vec![
        Operation {
            method: "post",
            path: "/frontier/v1/urls",
            summary: "Puts URLs into the crawl; answers when they are on the disk",
            parameters: json!([]),
            body: Some(reference::<urls::Inject>(schemas)),
            answer: reference::<urls::InjectReply>(schemas),
            refusals: bad_body(&[]),
        },
        Operation {
            method: "put",
            path: "/frontier/v1/urls/{id}",
            summary: "Says what became of a lease; answers when it is on the disk",
            parameters: json!([in_path("id", "Of the lease")]),
            body: Some(reference::<urls::Update>(schemas)),
            answer: reference::<urls::Updated>(schemas),
            refusals: bad_body(&[
                ("404", "There was never such a lease"),
                ("409", "The lease has run out"),
            ]),
        },
        Operation {
            method: "get",
            path: "/frontier/v1/next",
            summary: "Takes leases of hosts whose time has come, one URL of each",
            parameters: json!([
                in_query("urls", "How many at most, 1 to 1000; 10 if it is left out"),
                in_query("wait", "Seconds to wait for the first, 0 to 30; 1 if it is left out"),
                in_query(
                    "lease",
                    "Seconds that they last, up to workers.lease, which is what it is if left out"
                ),
            ]),
            body: None,
            answer: reference::<lease::Batch>(schemas),
            refusals: vec![("400", "A bad parameter")],
        },
        Operation {
            method: "post",
            path: "/frontier/v1/heartbeat",
            summary: "Says that visits are still under way: their leases begin anew",
            parameters: json!([]),
            body: Some(reference::<lease::Heartbeat>(schemas)),
            answer: reference::<lease::Beaten>(schemas),
            refusals: bad_body(&[("404", "Not the id of a lease")]),
        },
        Operation {
            method: "get",
            path: "/frontier/v1/hosts",
            summary: "Hosts with URLs that wait, page by page",
            parameters: json!([
                in_query("after", "The host with which the last page ended"),
                in_query("limit", "How many at most, 1 to 1000; 100 if it is left out"),
            ]),
            body: None,
            answer: reference::<hosts::HostPage>(schemas),
            refusals: vec![("400", "A bad parameter")],
        },
        Operation {
            method: "put",
            path: "/frontier/v1/hosts/{host}/rate",
            summary: "Gives a host a delay of its own, which outlives restarts",
            parameters: json!([in_path("host", "Its name alone, without port")]),
            body: Some(reference::<hosts::Rate>(schemas)),
            answer: reference::<hosts::RateReply>(schemas),
            refusals: bad_body(&[("404", "No URL of this host is known")]),
        },
        Operation {
            method: "get",
            path: "/frontier/v1/stats",
            summary: "How much there is, and how fast it goes",
            parameters: json!([]),
            body: None,
            answer: reference::<stats::Stats>(schemas),
            refusals: Vec::new(),
        },
    ]
}

fn told(operation: &Operation) -> Value {
    let error = json!({ "$ref": "#/components/schemas/Error" });
    let mut responses = json!({ "200": answered("Done", &operation.answer) });
    let common = [
        ("401", "The token is missing or wrong"),
        ("503", "Too busy, or about to end: ask again in a moment"),
    ];
    for (status, why) in operation.refusals.iter().chain(&common) {
        responses[*status] = answered(why, &error);
    }
    let mut told = json!({
        "summary": operation.summary,
        "parameters": operation.parameters,
        "responses": responses,
    });
    if let Some(body) = &operation.body {
        told["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": body } } });
    }
    told
}

fn answered(why: &str, schema: &Value) -> Value {
    json!({ "description": why, "content": { "application/json": { "schema": schema } } })
}

fn reference<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    schemas.subschema_for::<T>().into()
}

fn in_path(name: &str, what: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "description": what, "schema": { "type": "string" } })
}

fn in_query(name: &str, what: &str) -> Value {
    json!({ "name": name, "in": "query", "required": false, "description": what, "schema": { "type": "string" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_to_a_schema_and_every_field_is_described() {
        let document = describe();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"").skip(1) {
            let name = reference.split('"').next().unwrap().rsplit('/').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
        let update = &schemas["Update"]["properties"];
        assert_eq!(update["links"]["type"], "array", "{update}");
        assert!(schemas["InjectStatus"].to_string().contains("accepted"));
    }

    #[test]
    fn each_path_of_the_contract_is_there() {
        let document = describe();
        let paths = document["paths"].as_object().unwrap();
        let all: Vec<String> = paths
            .iter()
            .flat_map(|(path, methods)| {
                methods.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
            })
            .collect();
        let mut expected = [
            "post /frontier/v1/urls",
            "put /frontier/v1/urls/{id}",
            "get /frontier/v1/next",
            "post /frontier/v1/heartbeat",
            "get /frontier/v1/hosts",
            "put /frontier/v1/hosts/{host}/rate",
            "get /frontier/v1/stats",
        ];
        expected.sort_unstable_by_key(|text| text.split(' ').next_back().unwrap());
        let mut all = all;
        all.sort_unstable_by_key(|text| text.split(' ').next_back().unwrap().to_owned());
        assert_eq!(all, expected);
    }
}
