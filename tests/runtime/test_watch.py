"""Changes of memory are noticed, whoever makes them: this process, the system for it, or another process."""

import ctypes
import mmap
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

pytestmark = pytest.mark.library
watching = pytest.importorskip("onegraph.native.watch")

PAGE, SIZE = mmap.PAGESIZE, 3 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
PRIVATE, FIXED, ANONYMOUS = mmap.MAP_PRIVATE, 0x10, mmap.MAP_ANONYMOUS


def watch(*arrays):
    return watching.Watch([(one.ctypes.data, one.nbytes) for one in arrays], 2)


def memory(flags=PRIVATE | ANONYMOUS, file=-1):
    """An array on pages of its own, with contents."""
    array = np.frombuffer(mmap.mmap(file, SIZE, flags), np.uint8)
    array[:] = np.random.default_rng(0).integers(0, 256, SIZE, np.uint8) if file == -1 else array
    return array


def test_each_byte_counts():
    array = np.zeros(300, np.uint8)
    for size in range(1, 300):
        part = array[:size]
        noticed = watch(part)
        for place in {0, size // 2, size - 1}:
            part[place] = 1
            assert noticed.is_changed(), (size, place)
            part[place] = 0
            assert not noticed.is_changed()


def test_words_that_change_places_count():
    words = np.arange(4096, dtype=np.uint32)
    noticed = watch(words)
    for first, second in [(0, 1), (0, 2), (1, 3), (0, 1024), (0, 2048), (5, 4095)]:
        words[[first, second]] = words[[second, first]]
        assert noticed.is_changed(), (first, second)
        words[[first, second]] = words[[second, first]]
        assert not noticed.is_changed()


def test_sums_that_stay_the_same_count():
    words = np.full(1024, 10, np.uint32)
    noticed = watch(words)
    for _ in range(200):
        places = np.random.default_rng().integers(0, 1024, 2)
        words[places[0]] += 1
        words[places[1]] -= 1
        assert noticed.is_changed() == bool((words != 10).any())
        words[:] = 10


def test_a_change_is_noticed_until_it_is_undone():
    array = memory()
    noticed = watch(array)
    assert not noticed.is_changed()
    array[SIZE // 2] ^= 1
    assert [noticed.is_changed() for _ in range(3)] == [True] * 3
    array[7] ^= 1
    array[SIZE // 2] ^= 1
    assert noticed.is_changed()
    array[7] ^= 1
    assert [noticed.is_changed() for _ in range(3)] == [False] * 3
    array[SIZE - 1] ^= 1
    assert noticed.is_changed()


def test_pages_that_nobody_wrote_are_not_read_again():
    noticed = watch(memory())
    if noticed.read_bytes == SIZE:
        pytest.skip("this system does not tell which pages were written")
    assert noticed.read_bytes < 2 * PAGE


def test_several_watches_notice_one_write():
    array = memory()
    all_of_it, half, again = watch(array), watch(array[SIZE // 4 : -SIZE // 4]), watch(array)
    array[SIZE // 2] ^= 1
    assert [one.is_changed() for one in (all_of_it, half, again)] == [True] * 3
    del half
    array[SIZE // 2] ^= 1
    assert [one.is_changed() for one in (all_of_it, again)] == [False] * 2
    array[SIZE // 2 + PAGE] ^= 1
    assert [one.is_changed() for one in (again, all_of_it)] == [True] * 2


def written_by_the_system(array, path):
    path.write_bytes(bytes(8))
    with path.open("rb", buffering=0) as file:
        file.readinto(memoryview(array)[SIZE // 2 : SIZE // 2 + 8])


def given_back(array, _):
    place = ctypes.c_void_p(array.ctypes.data + SIZE // 2)
    assert libc.madvise(place, ctypes.c_size_t(PAGE), 4) == 0  # MADV_DONTNEED: the page is zero from now on


def mapped_anew(array, _):
    start = array.ctypes.data
    flags = PRIVATE | FIXED | ANONYMOUS
    assert libc.mmap(start, SIZE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) == start


def written_through_another_pointer(array, _):
    ctypes.memset(array.ctypes.data + SIZE // 2, 0, 8)


def written_by_another_thread(array, _):
    thread = threading.Thread(target=array.fill, args=(0,))
    thread.start()
    thread.join()


WRITES = [
    written_by_the_system,
    given_back,
    mapped_anew,
    written_through_another_pointer,
    written_by_another_thread,
]


@pytest.mark.parametrize("write", WRITES)
def test_writes_past_numpy_are_noticed(write, tmp_path):
    array = memory()
    noticed = watch(array)
    assert not noticed.is_changed()
    write(array, tmp_path / "bytes")
    assert array[SIZE // 2 : SIZE // 2 + 8].any() == 0
    assert [noticed.is_changed() for _ in range(3)] == [True] * 3
    array[SIZE // 2] = 1
    assert noticed.is_changed()


WRITER = """
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    mmap.mmap(file.fileno(), 0)[int(sys.argv[2])] ^= 1
"""


@pytest.mark.parametrize("flags", [mmap.MAP_SHARED, PRIVATE])
def test_writes_of_another_process_to_a_mapped_file_are_noticed(flags, tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(bytes(SIZE))
    with path.open("r+b") as file:
        array = memory(flags, file.fileno())
        noticed = watch(array)
        assert not noticed.is_changed()
        subprocess.run([sys.executable, "-c", WRITER, str(path), str(SIZE // 2)], check=True)
        assert noticed.is_changed()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("flags", [mmap.MAP_SHARED | ANONYMOUS, PRIVATE | ANONYMOUS])
def test_parent_and_child_of_a_fork(flags):
    array = memory(flags)
    noticed = watch(array)
    child = os.fork()
    if not child:
        try:
            before = noticed.is_changed()
            array[SIZE // 2] ^= 1
            os._exit(int([before, noticed.is_changed()] != [False, True]))
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert noticed.is_changed() == (flags & mmap.MAP_SHARED > 0)
    array[PAGE] ^= 1
    assert noticed.is_changed()


def test_threads_that_ask_at_once_notice_alike():
    array = memory()
    noticed = watch(array)
    for round_ in range(50):
        array[SIZE // 2] ^= 1
        start, answers = threading.Barrier(3), []

        def ask(start=start, answers=answers):
            start.wait()
            answers.append(noticed.is_changed())

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert answers == [round_ % 2 == 0] * 3
