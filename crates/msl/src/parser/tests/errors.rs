//! The exact text of parse errors.

use super::error;

/// Asserts the first diagnostic, and that it is the only one.
#[track_caller]
fn check(source: &str, expected: &str) {
    let actual = error(source);
    assert!(actual == expected, "expected:\n{expected}\nactual:\n{actual}");
}

/// Asserts the first line and the position of the only error.
#[track_caller]
fn head(source: &str, expected: &str, at: &str) {
    let actual = error(source);
    let mut lines = actual.lines();
    assert_eq!(lines.next(), Some(expected), "{actual}");
    assert_eq!(
        lines.next().map(|l| l.trim_start_matches(" --> t.metal:")),
        Some(at),
        "{actual}"
    );
    assert_eq!(actual.matches("error[").count(), 1, "{actual}");
}

#[test]
fn missing_semicolon() {
    check(
        "void f() {\n    int x = 1\n    return;\n}\n",
        "\
error[E0301]: expected ';', found 'return'
 --> t.metal:2:14
  |
2 |     int x = 1
  |              ^ ';' is missing here
",
    );
}

#[test]
fn missing_parenthesis() {
    check(
        "void f(int a) {\n    if (a > 1 { return; }\n}\n",
        "\
error[E0301]: expected ')', found '{'
 --> t.metal:2:15
  |
2 |     if (a > 1 { return; }
  |               ^ expected ')'
  |        - to close this
",
    );
}

#[test]
fn missing_brace_at_the_end() {
    check(
        "void f() {\n    int x;\n",
        "\
error[E0301]: expected '}', found end of file
 --> t.metal:2:11
  |
1 | void f() {
  |          - to close this
2 |     int x;
  |           ^ '}' is missing here
",
    );
}

#[test]
fn in_a_macro() {
    check(
        "#define BAD(x) x + * ;\nvoid f(int a) {\n    BAD(a)\n}\n",
        "\
error[E0301]: expected an expression, found ';'
 --> t.metal:3:5
  |
3 |     BAD(a)
  |     ^^^ expected an expression
  = note: in expansion of macro 'BAD' defined at t.metal:1:9
",
    );
}

#[test]
fn several_errors_in_one_function() {
    let text = error(
        "void f(int a) {\n    a = ;\n    int b = 1;\n    b + ;\n    a = b;\n}\nint 3x;\nvoid g() { goto done; }\n",
    );
    let heads: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("error") || l.contains("-->"))
        .collect();
    assert_eq!(
        heads,
        [
            "error[E0301]: expected an expression, found ';'",
            " --> t.metal:2:9",
            "error[E0301]: expected an expression, found ';'",
            " --> t.metal:4:9",
            "error[E0301]: expected a name, found '3x'",
            " --> t.metal:7:5",
            "error[E0310]: 'goto' is not supported",
            " --> t.metal:8:12",
        ]
    );
}

#[test]
fn refused_by_name() {
    let in_body = |s: &str| format!("void f(int a) {{ {s} }}");
    for (statement, what) in [
        ("goto x;", "'goto' is"),
        ("x: a = 1;", "a label is"),
        ("try { } catch (int e) { }", "exceptions are"),
        ("throw 1;", "exceptions are"),
        ("auto p = new int;", "'new' is"),
        ("delete a;", "'delete' is"),
        ("asm(\"nop\");", "inline assembly is"),
        ("auto [x, y] = a;", "structured bindings are"),
        ("a.*b;", "pointers to members are"),
        ("int S::*p = 0;", "pointers to members are"),
        ("void g() { }", "a function inside a function is"),
        ("dynamic_cast<int>(a);", "run-time type information is"),
    ] {
        let text = error(&in_body(statement));
        assert_eq!(
            text.lines().next(),
            Some(format!("error[E0310]: {what} not supported").as_str()),
            "{statement}"
        );
    }
    for (source, what) in [
        ("vertex float4 f() { return 0; }", "vertex functions are"),
        ("fragment float4 f() { return 0; }", "fragment functions are"),
        ("[[mesh]] void f() { }", "'[[mesh]]' functions are"),
        (
            "kernel void f(texture2d<float> t [[texture(0)]]) { }",
            "'texture2d': textures are",
        ),
        ("kernel void f(metal::sampler s) { }", "'sampler': samplers are"),
        (
            "void f(intersector<triangle_data> i) { }",
            "'intersector': ray tracing types are",
        ),
        ("struct A { virtual void f(); };", "virtual functions are"),
        ("struct A { void f() = 0; };", "virtual functions are"),
        ("void f(int n, ...);", "variadic functions are"),
        ("template <class T> requires true void f();", "concepts are"),
        ("thread_local int x;", "'thread_local' is"),
    ] {
        let text = error(source);
        assert_eq!(
            text.lines().next(),
            Some(format!("error[E0310]: {what} not supported").as_str()),
            "{source}"
        );
    }
}

#[test]
fn a_user_may_use_the_names_of_refused_types() {
    super::tree("struct ray { int a; }; struct mesh { ray r; }; ray f(mesh m) { ray x = m.r; return x; }");
}

#[test]
fn other_errors() {
    head(
        "void f() { device threadgroup int *p; }",
        "error[E0304]: address spaces 'device' and 'threadgroup' exclude each other",
        "1:19",
    );
    head(
        "void f() { unsigned float x; }",
        "error[E0305]: these type words do not go together",
        "1:12",
    );
    head("void f() { else return; }", "error[E0306]: 'else' without 'if'", "1:12");
    head("float;", "error[E0307]: this declaration declares nothing", "1:1");
    head("void f() { int x = 1q; }", "error[E0203]: invalid number '1q'", "1:20");
    head(
        "void f() { int x = 'ab'; }",
        "error[E0205]: invalid character literal 'ab'",
        "1:20",
    );
    head(
        "void f() { int x = @; }",
        "error[E0204]: stray character '@' in the source",
        "1:20",
    );
    head(
        "void f() { int class = 1; }",
        "error[E0301]: expected a name, found the keyword 'class'",
        "1:16",
    );
    head(
        "template <class T struct A { };",
        "error[E0301]: expected '>', found the keyword 'struct'"
            .replace("the keyword ", "")
            .as_str(),
        "1:19",
    );
    head("struct A { int a };", "error[E0301]: expected ';', found '}'", "1:18");
    head("kernel f() { }", "error[E0308]: the type of 'f' is missing", "1:8");
}
