//! Input: the types of the documents that commands print as JSON, as the sources define them for
//! serde. Output: `docs/schemas/NAME.json`. Read from the sources, the schemas put no crate and no
//! line at each type into the program.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use syn::{Attribute, Expr, Fields, GenericArgument, Item, Lit, LitStr, Meta, PathArguments, Token, Type, token};

/// The name of each schema, and the file below `crates` that has its `Document`.
const DOCUMENTS: [(&str, &str); 5] = [
    ("audit", "cli/commands-wheel/src/audit.rs"),
    ("choose", "cli/commands-test/src/choose/text.rs"),
    ("doctor", "cli/commands-test/src/doctor.rs"),
    ("kernels", "cli/commands-wheel/src/kernels/document.rs"),
    ("test-report", "cli/commands-test/src/test/report.rs"),
];

/// Types that are printed as a text: those of other crates, and those that serialise themselves.
const TEXTS: [&str; 5] = ["Code", "Fix", "PathBuf", "String", "str"];

/// The file and the definition of each type, by its name.
type Sources = BTreeMap<String, Vec<(PathBuf, Item)>>;

fn read_sources(folder: &Path) -> Sources {
    let mut sources = Sources::new();
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let path = entry.unwrap().into_path();
        if path.extension().is_none_or(|extension| extension != "rs") || !path.iter().any(|part| part == "src") {
            continue;
        }
        let text = fs_err::read_to_string(&path).unwrap();
        if !text.contains("Serialize") {
            continue;
        }
        for item in syn::parse_file(&text).unwrap().items {
            let name = match &item {
                Item::Struct(item) => item.ident.to_string(),
                Item::Enum(item) => item.ident.to_string(),
                _ => continue,
            };
            sources.entry(name).or_default().push((path.clone(), item));
        }
    }
    sources
}

/// The definition that a file means by a name: its own, else that of its crate, else the only one.
fn find<'a>(sources: &'a Sources, name: &str, file: &Path) -> &'a (PathBuf, Item) {
    let folder = file.ancestors().find(|folder| folder.ends_with("src")).unwrap();
    for place in [file, folder, Path::new("/")] {
        let near: Vec<_> = sources.get(name).into_iter().flatten().filter(|one| one.0.starts_with(place)).collect();
        match near[..] {
            [] => {}
            [one] => return one,
            _ => break,
        }
    }
    panic!("{}: `{name}` is not one type of the sources", file.display())
}

/// The words in the `serde` attributes of a type, field or variant, with their values.
fn serde_words(attributes: &[Attribute]) -> BTreeMap<String, String> {
    let mut words = BTreeMap::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        let read = attribute.parse_nested_meta(|meta| {
            let word = meta.path.require_ident()?.to_string();
            if meta.input.peek(token::Paren) {
                return meta.parse_nested_meta(|one| {
                    assert!(one.path.is_ident("serialize"), "`{word}` is for more than the output");
                    words.insert(word.clone(), one.value()?.parse::<LitStr>()?.value());
                    Ok(())
                });
            }
            let has_value = meta.input.peek(Token![=]);
            let value = if has_value { meta.value()?.parse::<LitStr>()?.value() } else { String::new() };
            words.insert(word, value);
            Ok(())
        });
        read.unwrap();
    }
    for unknown in ["content", "into", "serialize_with", "untagged", "with"] {
        assert!(!words.contains_key(unknown), "`{unknown}` of serde is not known here");
    }
    words
}

/// A name as serde prints it. `all` are the words of the enum or struct, `own` those of the variant
/// or field.
fn name_of(name: &str, all: &BTreeMap<String, String>, own: &BTreeMap<String, String>) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        snake.extend((letter.is_uppercase() && !snake.is_empty()).then_some('_'));
        snake.extend(letter.to_lowercase());
    }
    match (own.get("rename"), all.get("rename_all").map(String::as_str)) {
        (Some(name), _) => name.clone(),
        (None, None) => name.to_owned(),
        (None, Some("snake_case")) => snake,
        (None, Some("kebab-case")) => snake.replace('_', "-"),
        (None, Some("lowercase")) => snake.replace('_', ""),
        (None, Some(other)) => panic!("`{other}` is not known here"),
    }
}

/// The doc comment as `description`.
fn described(mut schema: Value, attributes: &[Attribute]) -> Value {
    let mut lines = Vec::new();
    for attribute in attributes {
        if let Meta::NameValue(pair) = &attribute.meta
            && let (true, Expr::Lit(value)) = (pair.path.is_ident("doc"), &pair.value)
            && let Lit::Str(text) = &value.lit
        {
            lines.push(text.value().trim().to_owned());
        }
    }
    if !lines.is_empty() {
        schema["description"] = lines.join(" ").replace("[`", "`").replace("`]", "`").into();
    }
    schema
}

/// The definitions that a document refers to.
struct Schema<'a> {
    sources: &'a Sources,
    definitions: BTreeMap<String, Value>,
}

impl Schema<'_> {
    fn of(&mut self, kind: &Type, file: &Path) -> Value {
        match kind {
            Type::Reference(kind) => self.of(&kind.elem, file),
            Type::Slice(kind) => json!({ "type": "array", "items": self.of(&kind.elem, file) }),
            Type::Path(kind) => {
                let last = kind.path.segments.last().unwrap();
                let mut inner = Vec::new();
                if let PathArguments::AngleBracketed(all) = &last.arguments {
                    for argument in &all.args {
                        inner.extend(if let GenericArgument::Type(kind) = argument { Some(kind) } else { None });
                    }
                }
                self.named(&last.ident.to_string(), &inner, file)
            }
            _ => panic!("{}: a type is not known here", file.display()),
        }
    }

    fn named(&mut self, name: &str, inner: &[&Type], file: &Path) -> Value {
        match (name, inner) {
            ("bool", _) => json!({ "type": "boolean" }),
            ("u8" | "u16" | "u32" | "u64" | "usize", _) => json!({ "type": "integer", "minimum": 0 }),
            ("i32" | "i64", _) => json!({ "type": "integer" }),
            ("f64", _) => json!({ "type": "number" }),
            ("Option", [kind]) => json!({ "anyOf": [self.of(kind, file), { "type": "null" }] }),
            ("Value", _) => json!({}),
            ("Arc", [kind]) => self.of(kind, file),
            ("Vec" | "BTreeSet", [kind]) => json!({ "type": "array", "items": self.of(kind, file) }),
            ("BTreeMap", [_, kind]) => json!({ "type": "object", "additionalProperties": self.of(kind, file) }),
            _ if TEXTS.contains(&name) => json!({ "type": "string" }),
            _ => {
                let (file, item) = find(self.sources, name, file);
                let made = self.define(item, file);
                let other = self.definitions.insert(name.to_owned(), made.clone());
                assert!(other.is_none_or(|other| other == made), "two types have the name `{name}`");
                json!({ "$ref": format!("#/$defs/{name}") })
            }
        }
    }

    fn define(&mut self, item: &Item, file: &Path) -> Value {
        match item {
            Item::Struct(item) => described(self.fields(&item.fields, &serde_words(&item.attrs), file), &item.attrs),
            Item::Enum(item) => {
                let all = serde_words(&item.attrs);
                let mut variants = Vec::new();
                for variant in &item.variants {
                    let own = serde_words(&variant.attrs);
                    let name = name_of(&variant.ident.to_string(), &all, &own);
                    let mut schema = self.fields(&variant.fields, &own, file);
                    if let Some(tag) = all.get("tag") {
                        merge(
                            &mut schema,
                            &json!({ "properties": { tag: { "const": name } }, "required": [tag] }),
                            true,
                        );
                    } else if let Fields::Unit = &variant.fields {
                        schema = json!({ "const": name });
                    } else {
                        schema = json!({ "type": "object", "properties": { &name: schema }, "required": [name] });
                    }
                    variants.push(described(schema, &variant.attrs));
                }
                described(json!({ "anyOf": variants }), &item.attrs)
            }
            _ => unreachable!("`read_sources` keeps no other"),
        }
    }

    /// The fields of a struct or variant, whose words are `all`.
    fn fields(&mut self, fields: &Fields, all: &BTreeMap<String, String>, file: &Path) -> Value {
        let mut made = json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": true });
        let mut alternatives = Vec::new();
        for field in fields {
            let words = serde_words(&field.attrs);
            if words.contains_key("skip") || words.contains_key("skip_serializing") {
                continue;
            }
            let schema = self.of(&field.ty, file);
            let Some(name) = &field.ident else { return schema };
            if !words.contains_key("flatten") {
                let name = name_of(name.to_string().trim_start_matches("r#"), all, &words);
                let part = json!({ "properties": { &name: described(schema, &field.attrs) }, "required": [name] });
                merge(&mut made, &part, !words.contains_key("skip_serializing_if"));
            } else if let Some(name) = schema["$ref"].as_str() {
                let part = &self.definitions[&name.replace("#/$defs/", "")];
                alternatives.extend(part["anyOf"].as_array().into_iter().flatten().cloned());
                merge(&mut made, part, true);
            } else {
                made["additionalProperties"] = schema["additionalProperties"].clone();
            }
        }
        if alternatives.is_empty() {
            return made;
        }
        for one in &mut alternatives {
            merge(one, &made, true);
        }
        json!({ "anyOf": alternatives })
    }
}

/// Adds the properties of another schema, and which of them are required.
fn merge(schema: &mut Value, part: &Value, is_required: bool) {
    for (name, property) in part["properties"].as_object().into_iter().flatten() {
        schema["properties"][name] = property.clone();
    }
    if is_required && let Some(required) = part["required"].as_array() {
        schema["required"].as_array_mut().unwrap().extend(required.iter().cloned());
    }
}

#[test]
fn the_schemas_of_results_are_those_of_the_types() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    let sources = read_sources(&root.join("crates"));
    for (name, file) in DOCUMENTS {
        let mut schema = Schema { sources: &sources, definitions: BTreeMap::new() };
        let (file, item) = find(&sources, "Document", &root.join("crates").join(file));
        let mut document = schema.define(item, file);
        document["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        document["title"] = format!("What `rocwheel {} --json` prints", name.replace('-', " ")).into();
        if name == "choose" {
            let address = json!({ "type": "string", "description": "Address of the index." });
            schema.definitions.insert("PackageOrigin".to_owned(), address);
        }
        // `Printer::json` begins every document with these.
        let configuration = json!({ "type": "object", "description": "The file of settings that was used." });
        let version = json!({ "const": 1, "description": "Version of the document." });
        document["properties"]["configuration"] = configuration;
        merge(&mut document, &json!({ "properties": { "schema": version }, "required": ["schema"] }), true);
        let text = json!([document, schema.definitions]).to_string();
        schema.definitions.retain(|name, _| text.contains(&format!("\"#/$defs/{name}\"")));
        document["$defs"] = json!(schema.definitions);
        let made = serde_json::to_string_pretty(&document).unwrap() + "\n";
        let path = root.join(format!("docs/schemas/{name}.json"));
        if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
            fs_err::write(&path, &made).unwrap();
        }
        let stored = fs_err::read_to_string(&path).unwrap_or_default();
        assert!(stored == made, "{} is old: INSTA_UPDATE=always writes it", path.display());
    }
}
