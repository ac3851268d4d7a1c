import numpy as np
import pytest

from caffe.scalar_view import ScalarView, scalar_view


def test_a_view_without_axes_answers_as_both_kinds_of_script_ask():
    memory = np.array([2.5], dtype=np.float32)
    view = scalar_view(memory.reshape(()))
    assert isinstance(view, ScalarView) and view.shape == ()
    assert view[0] == view[-1] == view[()] == view[...] == 2.5
    assert view[:].shape == (1,) and view[:] == 2.5
    assert float(view) == view.item() == 2.5
    assert '%.2f' % view == '{:.2f}'.format(view) == '2.50'
    with pytest.raises(IndexError):
        view[1]


def test_writes_reach_the_memory():
    memory = np.zeros(1, dtype=np.float32)
    view = scalar_view(memory.reshape(()))
    for key, value in ((0, 1), (slice(None), 2), (Ellipsis, 3), ((), 4), ((0,), 5)):
        view[key] = value
        assert memory[0] == value
    view[:][0] = 6
    assert memory[0] == 6
    view += 1
    assert memory[0] == 7 and isinstance(view, ScalarView)


def test_arithmetic_gives_plain_numbers():
    view = scalar_view(np.array(3, dtype=np.float32))
    assert type(view * 2) is np.float32
    assert type(np.float32(2) + view) is np.float32
    assert type(view + np.ones(2)) is np.ndarray
    assert np.mean([view, view]) == 3


def test_other_arrays_stay_as_they_are():
    array = np.zeros((2, 3))
    assert scalar_view(array) is array
    with pytest.raises(ValueError, match='has no axes'):
        ScalarView(array)
