"""The files of tests that are to notice what no record of tests tells: of children, of constants and of C++ code."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
# Files of tests that run a room in processes of their own, so that no record has their ways.
OF_CHILDREN = {
    "compiler": ("test_recorded_steps", "test_recorded_plans"),
    "runtime": ("test_disk_cache", "test_warm_start", "test_recorded_plans"),
}
# Files of tests that import all modules, and compare what stands outside of functions, and defaults.
OF_CONSTANTS = ("test_recorded_material",)
# The files of tests of C++ files that register no kernel, by their names. The tests of a kernel are those that list it.
NATIVE = {
    "allocator": ("test_executable", "test_native", "test_threads", "test_stress"),
    "amx": ("test_code_products", "test_packed_products"),
    "call": ("test_executable", "test_arguments", "test_output_strides", "test_growing", "test_open_programs"),
    "cast": ("test_kernels", "test_elements"),
    "elementwise": ("test_special_values", "test_kernels"),
    "experts": ("test_process_faults",),
    "file_digest": ("test_disk_cache", "test_kept_state", "test_watch", "test_warm_start"),
    "guard": ("test_guard", "test_native", "test_capi", "test_crashes", "test_stress"),
    "guarded": ("test_special_values", "test_max_pool", "test_softmax"),
    "interpolate": ("test_ops_interpolation",),
    "library": ("test_native", "test_capi"),
    "max_pool": ("test_ops_pooling",),
    "memory_digest": ("test_watch", "test_kept_constants", "test_capi", "test_final_updates"),
    "memory_plan": ("test_memory_planner", "test_recorded_plans", "test_row_leaks"),
    "open_kernels": ("test_drawn_windows", "test_open_steps", "test_open_programs", "test_open_sizes"),
    "openmp": ("test_threads", "test_processor_share", "test_stress"),
    "page_writes": ("test_watch", "test_kept_constants"),
    "pages": ("test_executable", "test_process_faults"),
    "partition": ("test_capi", "test_executable", "test_warm_start", "test_kept_constants"),
    "plan": (
        "test_executable",
        "test_kernels",
        "test_open_programs",
        "test_output_strides",
        "test_threads",
        "test_control_flow",
        "test_final_updates",
        "test_variables",
    ),
    "registry": ("test_kernel_records", "test_kernels"),
    "results": ("test_executable", "test_growing", "test_output_strides", "test_training", "test_stress"),
    "special_numbers": ("test_row_leaks", "test_special_values", "test_exact_convolution"),
    "watch": ("test_watch", "test_kept_constants", "test_final_updates"),
}
# The files that judge what those have not noticed: they run most kernels in ops and models.
NATIVE_REST = (
    "test_kernel_refusals",
    "test_executable",
    "test_special_values",
    "test_open_steps",
    "test_ops_pooling",
    "test_ops_interpolation",
    "test_ops_normalization",
    "test_onnx_table",
)


def files_named(name: str) -> list[Path]:
    """The files of tests with a name, in any room."""
    return sorted(TESTS.glob(f"*/{name}.py"))
