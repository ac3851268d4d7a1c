import gc
import os

import numpy as np
import pytest

import caffe
from nets import feed, settings, small_net, write


@pytest.fixture
def solver(tmp_path):
    caffe.set_device('cpu')
    made = caffe.get_solver(settings(tmp_path))
    feed(made)
    return made


def test_solving(solver):
    assert solver.iter == 0
    first = float(solver.net.forward()['loss'])
    solver.solve()
    assert solver.iter == 20
    assert float(solver.net.forward()['loss']) < first


def test_a_step_gives_the_loss(solver):
    expected = float(solver.net.forward()['loss'])
    loss = solver.step(1)
    assert isinstance(loss, float) and loss == pytest.approx(expected, rel=1e-5)
    assert solver.iter == 1


def test_an_update_by_hand(tmp_path):
    caffe.set_device('cpu')
    solver = caffe.get_solver(settings(tmp_path, momentum=0, weight_decay=0, lr_policy='fixed'))
    feed(solver)
    solver.net.forward()
    solver.net.backward()
    weights = solver.net.params['ip'][0]
    before, diff = weights.data.copy(), weights.diff.copy()
    solver.apply_update()
    np.testing.assert_allclose(weights.data, before - 0.01 * diff, rtol=1e-5, atol=1e-6)


def test_arrays_outlive_the_solver(solver):
    solver.solve()
    net, test_net = solver.net, solver.test_nets[0]
    del solver
    gc.collect()
    total = 0
    for part in (net, test_net):
        for blobs in part.params.values():
            total += sum(float(blob.data.sum()) for blob in blobs)
    assert np.isfinite(total)


def test_snapshots_are_written_and_restored(solver, tmp_path):
    solver.step(3)
    solver.snapshot()
    for suffix in ('caffemodel', 'solverstate'):
        assert os.path.getsize(str(tmp_path / 'model_iter_3.') + suffix) > 0
    solver.step(2)
    expected = solver.net.params['ip'][0].data.copy()
    again = caffe.get_solver(settings(tmp_path))
    feed(again)
    again.restore(str(tmp_path / 'model_iter_3.solverstate'))
    assert again.iter == 3
    again.step(2)
    np.testing.assert_array_equal(again.net.params['ip'][0].data, expected)


def test_a_solver_from_a_file_and_from_our_own_settings(tmp_path):
    caffe.set_device('cpu')
    from_file = caffe.get_solver(write(tmp_path, settings(tmp_path), 'solver.prototxt'))
    assert from_file.param.base_lr == pytest.approx(0.01)
    assert caffe.get_solver_from_file(str(tmp_path / 'solver.prototxt')).param.max_iter == 20
    config = caffe.SolverParameter()
    config.train_net = write(tmp_path, small_net())
    config.type = 'Adam'
    config.base_lr = 0.5
    config.momentum = 0.9
    config.lr_policy = 'fixed'
    config.max_iter = 7
    config.snapshot = 5
    config.snapshot_prefix = str(tmp_path / 'own')
    assert (config.type, config.base_lr, config.max_iter) == ('Adam', 0.5, 7)
    solver = caffe.get_solver(config)
    feed(solver)
    solver.step(5)
    assert (tmp_path / 'own_iter_5.caffemodel').exists()
    assert len(solver.test_nets) == 0


def test_the_learning_rate_is_that_of_the_iteration(tmp_path):
    caffe.set_device('cpu')
    config = caffe.SolverParameter()
    config.net_param = small_net()
    config.base_lr = 0.1
    config.lr_policy = 'multistep'
    config.gamma = 0.5
    config.stepvalue = [2, 3]
    config.test_iter = [1]
    config.test_interval = 100
    config.layer_wise_reduce = False
    assert config.stepvalue == [2, 3] and config.test_iter == [1] and not config.layer_wise_reduce
    solver = caffe.get_solver(config)
    feed(solver)
    rates = []
    for _ in range(4):
        rates.append(solver.lr)
        solver.step(1)
    assert rates == pytest.approx([0.1, 0.1, 0.05, 0.025])
    solver.param.base_lr = 1
    assert solver.lr == pytest.approx(0.25)


def test_classes_of_solvers(tmp_path):
    caffe.set_device('cpu')
    path = write(tmp_path, settings(tmp_path), 'solver.prototxt')
    solver = caffe.SGDSolver(path)
    feed(solver)
    solver.step(1)
    assert solver.iter == 1 and isinstance(caffe.get_solver(path), caffe.SGDSolver)


def test_weights_are_shared_with_a_net(solver):
    net = caffe.Net(small_net(), caffe.TEST)
    solver.share_weights(net)
    solver.net.params['ip'][0].data[0, 0] = 5
    assert net.params['ip'][0].data[0, 0] == 5


def test_callbacks(solver):
    seen = []
    solver.add_callback(lambda: seen.append('start'), lambda: seen.append('gradients'))
    solver.step(2)
    assert seen == ['start', 'gradients'] * 2


def test_a_seed_makes_two_runs_the_same(tmp_path):
    caffe.set_device('cpu')
    weights = []
    for _ in range(2):
        solver = caffe.get_solver(settings(tmp_path))
        feed(solver)
        solver.step(5)
        weights.append(solver.net.params['conv'][0].data.copy())
    np.testing.assert_array_equal(*weights)


def test_bad_settings_are_exceptions(tmp_path):
    with pytest.raises(RuntimeError, match='nowhere'):
        caffe.get_solver('nowhere.prototxt')
    with pytest.raises(RuntimeError, match='Nonsense'):
        caffe.get_solver(settings(tmp_path, type='Nonsense'))
    with pytest.raises(TypeError, match='expected a SolverParameter, not a NetParameter'):
        caffe.get_solver(small_net())


def test_an_exception_in_a_callback_ends_the_step(solver):
    def fail():
        raise ZeroDivisionError('by a callback')

    solver.add_callback(lambda: None, fail)
    with pytest.raises(ZeroDivisionError, match='by a callback'):
        solver.step(1)
    assert solver.iter == 0


def test_a_loss_that_is_not_finite_is_said_once(tmp_path, capfd):
    """By step(), whose loss Python reads, and by solve() without a display."""
    caffe.set_device('cpu')
    for train in (lambda solver: [solver.step(1) for _ in range(3)], lambda solver: solver.step(3),
                  lambda solver: solver.solve()):
        solver = caffe.get_solver(settings(tmp_path, max_iter=4, display=0, test_iter=[],
                                           test_interval=0))
        feed(solver)
        solver.step(1)
        assert 'the loss is' not in capfd.readouterr().err
        solver.net.blobs['data'].data[...] = float('nan')
        train(solver)
        errors = capfd.readouterr().err
        assert errors.count('the loss is nan') == 1, errors
        assert 'CAFFE_DEBUG=nan' in errors and 'base_lr' in errors
