//! What there is to set, as a table of the documentation.

use std::fmt::Write;

use rocfire_hal::SETTINGS;

/// The settings in Markdown: `tests/settings.md`, word for word.
pub fn settings() -> String {
    let mut text = "# Settings

Written from the code by `ROCFIRE_BLESS=1 cargo test --test coverage`; the same test fails when it is out of date. They are read from the
environment when a device is opened. A value that a setting does not take is an error that says what it takes; a name that is none of
them is a warning that lists them all. `cargo doctor` prints what each comes to, and where from.

| setting | values | what it decides |
| --- | --- | --- |
"
    .to_owned();
    for setting in SETTINGS {
        writeln!(text, "| `{}` | {} | {} |", setting.name, setting.values, setting.about).expect("a string takes text");
    }
    text
}
