"""The stages of the package that are mutated, each with the tests that are to notice."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
STAGES: dict[str, tuple[str, ...]] = {
    "_util": (
        "test_arguments",
        "test_npz",
        "test_names",
        "test_process_faults",
        "test_whole_files",
        "test_open_sizes",
        "test_arrays",
        "test_processor_share",
    ),
    "serialize": (
        "test_serialize",
        "test_file_details",
        "test_rejected_files",
        "test_foreign_files",
        "test_for_version",
        "test_npz",
        "test_whole_files",
        "test_saved_models",
        "test_mapped_files",
        "test_variables",
    ),
    "inference": (
        "test_call_verdicts",
        "test_checker",
        "test_builder",
        "test_translate",
        "test_type_messages",
        "test_op_templates",
        "test_suggestions",
    ),
    "checker": ("test_call_verdicts", "test_checker", "test_cli_check", "test_untried_version"),
    "opset": (
        "test_call_verdicts",
        "test_checker",
        "test_op_templates",
        "test_translate",
        "test_host_ops",
        "test_shapes",
    ),
    "faults": (
        "test_fault_conditions",
        "test_faults",
        "test_ways_around_faults",
        "test_slow_fusions",
        "test_checker_against_library",
    ),
    "gradient": ("test_gradient", "test_gradient_rules", "test_gradient_twice", "test_gradient_coverage"),
    "training": ("test_training", "test_training_losses", "test_averaging"),
    "transform": (
        "test_editing",
        "test_modes",
        "test_rewrites",
        "test_harness",
        "test_reduce",
        "test_computed_shapes",
        "test_graph_parts",
        "test_open_sizes",
    ),
    "builder": ("test_builder", "test_editing", "test_operators", "test_transactions", "test_compress_weights"),
    "compiler": (
        "test_passes",
        "test_lower",
        "test_kernels",
        "test_pointwise",
        "test_memory_planner",
        "test_weight_layouts",
        "test_sizes",
        "test_winograd",
        "test_executable",
        "test_widen",
        "test_values",
        "test_open_sizes",
        "test_row_leaks",
        "test_codes",
        "test_near_passes",
    ),
    "lowering": (
        "test_lowering_branches",
        "test_lowering_layout",
        "test_lifting",
        "test_onnx_patterns",
        "test_onnx_load",
        "test_single_lowerings",
        "test_scales",
        "test_window_shapes",
        "test_resize",
        "test_exact_parts",
        "test_near_patterns",
        "test_sums_and_blocks",
        "test_norms_and_pools",
        "test_computed_shapes",
        "test_control_flow",
    ),
    "runtime": (
        "test_executable",
        "test_variables",
        "test_program_cache",
        "test_kept_state",
        "test_output_strides",
        "test_growing",
        "test_explanation",
        "test_growing_caches",
    ),
    "reference": ("test_ops", "test_ops_normalization", "test_ops_pooling", "test_ops_quantization", "test_host_ops"),
}


def files_named(name: str) -> list[Path]:
    """The files of tests with a name, in any room."""
    return sorted(TESTS.glob(f"*/{name}.py"))
