"""Solvers with a rank: their share of the data, and their random numbers."""
import numpy as np
import pytest

import caffe
from caffe import layers as L
from caffe.proto import caffe_pb2


@pytest.fixture
def ranks():
    """A function that sets the rank and the number of solvers until the test ends."""
    def use(rank, count):
        caffe.set_solver_rank(rank)
        caffe.set_solver_count(count)
        assert (caffe.solver_rank(), caffe.solver_count()) == (rank, count)
    yield use
    use(0, 1)


def rows(folder, count):
    """A list with one HDF5 file, in which row i of `data` is i."""
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[count, 20]))
    net.label = L.Input(shape=dict(dim=[count]))
    net.out = L.HDF5Output(net.data, net.label, ntop=0, file_name=str(folder / 'rows.h5'))
    writer = caffe.Net(net.to_proto(), caffe.TEST)
    writer.blobs['data'].data[...] = np.arange(1, count + 1)[:, None]
    writer.blobs['label'].data[...] = np.arange(count) % 3
    writer.forward()
    (folder / 'list.txt').write_text(str(folder / 'rows.h5') + '\n')
    return str(folder / 'list.txt')


def make(source):
    net = caffe.NetSpec()
    net.data, net.label = L.HDF5Data(source=source, batch_size=2, shuffle=True, ntop=2)
    net.drop = L.Dropout(net.data)
    net.ip = L.InnerProduct(net.drop, num_output=3, weight_filler=dict(type='xavier'))
    net.loss = L.SoftmaxWithLoss(net.ip, net.label)
    return caffe.get_solver(caffe_pb2.SolverParameter(
        net_param=net.to_proto(), base_lr=0.1, lr_policy='fixed', random_seed=4,
        snapshot_after_train=False))


def items(solver, batches):
    read = []
    for _ in range(batches):
        solver.net.forward()
        read += [int(row[0]) for row in solver.net.blobs['data'].data]
    return read


def test_ranks_share_out_the_items_of_one_order(tmp_path, ranks):
    caffe.set_mode_cpu()
    source = rows(tmp_path, 7)
    alone = items(make(source), 12)
    assert sorted(alone[:7]) == list(range(1, 8)) != alone[:7]
    for rank in range(3):
        ranks(rank, 3)
        assert items(make(source), 4) == alone[rank::3]


def test_weights_are_equal_and_masks_differ(tmp_path, ranks):
    caffe.set_mode_cpu()
    source = rows(tmp_path, 7)
    weights, masks = [], []
    for rank in range(2):
        ranks(rank, 2)
        solver = make(source)
        solver.net.forward()
        weights.append(solver.net.params['ip'][0].data.copy())
        masks.append(solver.net.blobs['drop'].data == 0)
    assert (weights[0] == weights[1]).all()
    assert (masks[0] != masks[1]).any()


def test_a_rank_beyond_the_count_is_an_error(tmp_path, ranks):
    source = rows(tmp_path, 3)
    ranks(2, 2)
    with pytest.raises(RuntimeError, match='rank 2 of 2 replicas; ranks are 0 to 1'):
        make(source)
