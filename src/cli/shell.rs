//! Completions and the manual page.

use super::args::Arguments;
use super::files::Failure;
use super::output;
use clap::CommandFactory;
use clap_complete::Shell;

pub(super) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "stepcast", &mut text);
    output::print(&String::from_utf8(text)?)
}

/// One page: the command, then each subcommand's own sections.
pub(super) fn man() -> Result<(), Failure> {
    let mut command = Arguments::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands().filter(|c| c.get_name() != "help") {
        let man = clap_mangen::Man::new(subcommand.clone());
        let title = format!(".SH STEPCAST {}\n", subcommand.get_name().to_uppercase());
        page.extend_from_slice(title.as_bytes());
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    output::print(&String::from_utf8(page)?)
}
