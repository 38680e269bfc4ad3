//! What every sandbox service has to do, as functions over a client. Each way to a service runs all
//! of them: [`for_each_contract`](crate::for_each_contract) is the one list.

pub mod background;
pub mod files;
pub mod lifecycle;
pub mod processes;
pub mod pty;
pub mod streams;
pub mod transfers;

use polyaxon_sandbox::Error;

/// Hands the list of all functions of the contract to the macro `$each`, behind the words in
/// parentheses. A function that is added here is run over every way to a service.
#[macro_export]
macro_rules! for_each_contract {
    ($each:ident $(, $word:tt)*) => {
        $each! {
            ($($word)*)
            files::bytes_come_back_as_they_went,
            files::a_file_of_many_pages_is_read_whole,
            files::names_are_taken_as_they_are,
            files::modes_are_those_that_were_asked_for,
            files::a_write_keeps_to_its_conditions,
            files::listings_are_sorted_and_say_when_they_are_cut,
            files::failures_have_their_codes,
            files::failures_have_their_statuses,
            files::a_path_that_cannot_be_is_refused,
            processes::an_end_is_told_exactly,
            processes::arguments_reach_the_program_untouched,
            processes::the_environment_is_edited,
            processes::the_working_directory_has_the_files,
            processes::input_is_given_and_closed,
            processes::large_input_and_output_do_not_block_each_other,
            processes::output_that_is_cut_says_so,
            processes::a_time_limit_kills_the_whole_group,
            processes::an_exec_ends_when_its_process_ends,
            processes::a_command_that_cannot_start_is_not_applied,
            streams::a_stream_tells_start_output_and_end,
            streams::an_end_in_a_stream_is_told_exactly,
            streams::characters_that_come_byte_by_byte_are_whole,
            streams::large_output_comes_whole_in_a_stream,
            streams::live_output_comes_before_the_end,
            streams::lines_of_a_stream_are_those_of_the_command,
            streams::a_dropped_stream_stops_nothing_and_a_terminated_one_ends,
            streams::a_stream_goes_on_by_its_log_from_anywhere,
            streams::output_that_was_cut_is_completed_by_the_log,
            streams::streams_that_are_dropped_anywhere_leave_all_usable,
            background::a_background_exec_is_found_by_tag_and_id,
            background::a_tag_that_is_taken_is_refused,
            background::a_log_is_followed_while_it_is_written,
            background::both_outputs_are_followed_whole,
            background::a_page_is_the_part_that_was_asked_for,
            background::waiting_ends_with_the_command_or_at_its_limit,
            background::a_command_is_signaled_and_terminated,
            background::what_is_deleted_is_ended_and_forgotten,
            background::background_calls_that_are_dropped_leave_all_usable,
            transfers::a_file_goes_up_and_comes_down_whole,
            transfers::what_is_there_is_replaced_or_stays,
            transfers::what_is_no_file_is_not_transferred,
            transfers::files_without_a_size_come_whole,
            transfers::a_reader_gives_what_is_in_its_range,
            transfers::a_writer_writes_in_order,
            transfers::an_append_at_a_size_is_refused_at_another,
            transfers::renaming_moves_what_is_named,
            transfers::a_walk_meets_everything_once,
            transfers::a_directory_goes_up_and_comes_down_as_it_is,
            transfers::a_directory_that_is_there_is_added_to_replaced_or_stays,
            transfers::nothing_harmful_comes_with_a_directory,
            lifecycle::a_sandbox_is_listed_among_those_of_its_project,
            lifecycle::the_url_of_a_port_names_the_run,
            pty::a_shell_answers_through_its_terminal,
            pty::what_was_written_before_the_attachment_is_replayed,
            pty::a_size_is_seen_by_the_program_however_early_it_comes,
            pty::a_size_that_cannot_be_is_refused_and_the_session_lives,
            pty::every_byte_goes_through_in_both_directions,
            pty::a_frame_that_is_of_no_use_is_an_event_and_not_the_end,
            pty::the_end_of_the_program_is_told_exactly,
            pty::one_client_at_a_time_is_attached,
            pty::a_program_that_has_ended_cannot_be_attached_to_and_says_how_it_ended,
            pty::a_program_runs_on_while_nobody_is_attached,
            pty::a_signal_reaches_the_job_in_the_foreground,
            pty::terminals_are_listed_found_by_tag_and_deleted,
            pty::input_and_output_of_any_size_do_not_wait_for_each_other,
            pty::a_terminal_is_a_reader_and_a_writer,
            pty::an_attachment_that_is_dropped_leaves_the_terminal_to_others,
            pty::an_attach_that_is_dropped_at_any_point_leaves_the_terminal_to_others,
        }
    };
}

/// The cause of an error, as text.
fn cause(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}
