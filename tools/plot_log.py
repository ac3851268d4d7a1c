#!/usr/bin/env python3
"""Curves of logs of `caffe train`: plot_log.py train.log... [--output curve.png]

Draws the outputs of the train nets and test nets over the iterations, one panel for each name of an
output, and a line for each log. Needs matplotlib.
"""
import argparse
import os
import sys

import parse_log


def series(path):
    """Output name -> list of (label, iterations, values)."""
    train, tests = parse_log.read(path)
    found = {}
    for kind, rows in [('train', train)] + [
            ('test' if len(tests) == 1 else 'test %d' % net, tests[net]) for net in sorted(tests)]:
        for name in parse_log.columns(rows)[3:]:
            points = [(row['NumIters'], row[name]) for row in rows if name in row]
            found.setdefault(name, []).append(
                ('%s, %s' % (os.path.basename(path), kind), *zip(*points)))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('logs', nargs='+', help='logs of caffe train (standard error or log_dir)')
    parser.add_argument('--output', default='curve.png',
                        help='the picture, .png, .svg or .pdf (default: curve.png)')
    parser.add_argument('--fields', nargs='+', metavar='NAME', help='only these outputs')
    parser.add_argument('--linear', action='store_true', help='losses on a linear axis')
    arguments = parser.parse_args()
    try:
        import matplotlib
    except ModuleNotFoundError:
        sys.exit('plot_log.py: matplotlib is not installed; it is in .venv (". .venv/bin/activate") '
                 'where tools/install_dependencies.sh made one')
    matplotlib.use('Agg')
    import matplotlib.pyplot as plt

    panels = {}
    try:
        for path in arguments.logs:
            for name, lines in series(path).items():
                panels.setdefault(name, []).extend(lines)
    except OSError as error:
        sys.exit('plot_log.py: %s' % error)
    if arguments.fields:
        missing = [name for name in arguments.fields if name not in panels]
        if missing:
            sys.exit('plot_log.py: no output %s; the outputs are %s'
                     % (missing[0], parse_log.printable(', '.join(sorted(panels)))))
        panels = {name: panels[name] for name in arguments.fields}

    figure, axes = plt.subplots(len(panels), 1, figsize=(8, 4 * len(panels)), squeeze=False)
    for ax, (name, lines) in zip(axes.flat, panels.items()):
        for label, iterations, values in lines:
            ax.plot(iterations, values, label=label, marker='.' if len(values) < 30 else None)
        positive = all(value > 0 for _, _, values in lines for value in values)
        if 'loss' in name and positive and not arguments.linear:
            ax.set_yscale('log')
        ax.set_title(name, parse_math=False)
        ax.set_xlabel('iteration')
        ax.set_ylabel(name, parse_math=False)
        ax.grid(alpha=0.3)
        ax.legend()
    figure.tight_layout()
    try:
        figure.savefig(arguments.output, dpi=120)
    except (OSError, ValueError) as error:
        sys.exit('plot_log.py: %s' % error)
    print('drew', parse_log.printable(', '.join(panels)), 'to', arguments.output)


if __name__ == '__main__':
    main()
