"""Lists of measurements that are made together, with what each of them should reach."""

# (net, type, batch) -> (milliseconds, MiB); None: without a target.
H200 = {
    'caffenet-forward': dict(
        work='forward', models=['caffenet'], batches=[512, 1], types=['float', 'half'],
        targets={('caffenet', 'float', 512): (12, 1500), ('caffenet', 'half', 512): (2.8, 850),
                 ('caffenet', 'float', 1): (0.28, None), ('caffenet', 'half', 1): (0.13, None)}),
    'caffenet-training': dict(
        work='train', models=['caffenet'], batches=[256], types=['float', 'half'],
        targets={('caffenet', 'float', 256): (30, None), ('caffenet', 'half', 256): (11, None)}),
    'resnet50-forward': dict(
        work='forward', models=['resnet50'], batches=[256, 1], types=['float', 'half'],
        targets={('resnet50', 'float', 256): (58, 3500), ('resnet50', 'half', 256): (11, 1800),
                 ('resnet50', 'half', 1): (0.6, None)}),
    'resnet50-training': dict(
        work='train', models=['resnet50'], batches=[64], types=['float', 'half'],
        targets={('resnet50', 'float', 64): (60, 9000), ('resnet50', 'half', 64): (20, None)}),
    'squeezenet-forward': dict(
        work='forward', models=['squeezenet'], batches=[256], types=['float', 'half'],
        targets={('squeezenet', 'float', 256): (15, None),
                 ('squeezenet', 'half', 256): (7, None)}),
    'lenet-training': dict(
        work='train', models=['lenet'], batches=[64], types=['float'],
        targets={('lenet', 'float', 64): (0.10, None)}),
}

PRESETS = {
    'h200': dict(device='cuda:0', sides='cortado=.,torch,torch-channels-last-graph', rounds=5,
                 seconds=0.5, minutes=5, parts=H200),
}
