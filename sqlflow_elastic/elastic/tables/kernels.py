"""What a server does to rows, compiled: each function passes once over the rows that a step touches.

Rows are [capacity, width * (1 + slots)]: a row's weights, then its slots. ``arguments`` are scalars in the rows' dtype.

Weights and slots of a row are slices: so the compiler sees that they are apart, and takes several numbers at a time.
"""

from __future__ import annotations

import math
from typing import Any

from sqlflow_elastic.elastic.tables.compiled import compiled


@compiled
def find(position_of: Any, ids: Any, positions: Any, id_of: Any, count: int) -> int:
    """Where ids are; those that are nowhere get the positions from ``count`` on. Returns how many rows there are then.

    ``position_of`` holds one more than the position, 0 for none.
    """
    for i in range(len(ids)):
        position = position_of[ids[i]]
        if position == 0:
            id_of[count] = ids[i]
            count += 1
            position = count
            position_of[ids[i]] = position
        positions[i] = position - 1
    return count


@compiled
def read(rows: Any, positions: Any, out: Any) -> None:
    """The weights of rows; those of positions below 0 are left as they are."""
    for i in range(len(positions)):
        position = positions[i]
        if position >= 0:
            for j in range(out.shape[1]):
                out[i, j] = rows[position, j]


@compiled
def add_up(positions: Any, gradients: Any, place_of: Any, unique: Any, sums: Any, count: int) -> int:
    """Add a worker's gradients to those of the workers before it.

    ``place_of`` holds for each position one more than its place in ``unique`` and ``sums``, 0 for none.
    Returns how many there are then.
    """
    for i in range(len(positions)):
        place = place_of[positions[i]]
        if place == 0:
            unique[count] = positions[i]
            for j in range(gradients.shape[1]):
                sums[count, j] = gradients[i, j]
            count += 1
            place_of[positions[i]] = count
        else:
            for j in range(gradients.shape[1]):
                sums[place - 1, j] += gradients[i, j]
    return count


@compiled
def touch(rows: Any, unique: Any, before: Any, changed: Any, place_of: Any) -> None:
    """Before an update: keep the rows as they are, note that they change, and clear what `add_up` left."""
    for i in range(len(unique)):
        position = unique[i]
        place_of[position] = 0
        changed[position] = 1
        for j in range(rows.shape[1]):
            before[i, j] = rows[position, j]


@compiled
def sgd(rows: Any, unique: Any, gradients: Any, arguments: Any) -> None:
    """Without slots, or with momentum."""
    rate, momentum, nesterov = arguments
    width = gradients.shape[1]
    for i in range(len(unique)):
        row = rows[unique[i]]
        gradient, weights, velocities = gradients[i], row[:width], row[width:]
        if len(velocities) == 0:
            for j in range(width):
                weights[j] -= gradient[j] * rate
        else:
            for j in range(width):
                velocity = velocities[j] * momentum - gradient[j] * rate
                velocities[j] = velocity
                weights[j] += velocity * momentum - gradient[j] * rate if nesterov != 0 else velocity


@compiled
def adagrad(rows: Any, unique: Any, gradients: Any, arguments: Any) -> None:
    """One slot: the sum of squares."""
    rate, epsilon = arguments
    width = gradients.shape[1]
    for i in range(len(unique)):
        row = rows[unique[i]]
        gradient, weights, sums = gradients[i], row[:width], row[width:]
        for j in range(width):
            total = sums[j] + gradient[j] * gradient[j]
            sums[j] = total
            weights[j] -= rate * gradient[j] / math.sqrt(total + epsilon)


@compiled
def adam(rows: Any, unique: Any, gradients: Any, arguments: Any) -> None:
    """Two slots: the means of gradients and of their squares. ``rate`` has the corrections of their bias in it."""
    rate, rest_1, rest_2, epsilon = arguments
    width = gradients.shape[1]
    for i in range(len(unique)):
        row = rows[unique[i]]
        gradient, weights, means, squares = gradients[i], row[:width], row[width : 2 * width], row[2 * width :]
        for j in range(width):
            mean = means[j] + (gradient[j] - means[j]) * rest_1
            square = squares[j] + (gradient[j] * gradient[j] - squares[j]) * rest_2
            means[j] = mean
            squares[j] = square
            weights[j] -= mean * rate / (math.sqrt(square) + epsilon)


@compiled
def rmsprop(rows: Any, unique: Any, gradients: Any, arguments: Any) -> None:
    """Slots: the mean of squares, then of momentum if there is any, then the mean of gradients if centered."""
    rate, rho, rest, momentum, epsilon, centered = arguments
    width = gradients.shape[1]
    for i in range(len(unique)):
        row = rows[unique[i]]
        gradient, weights, squares = gradients[i], row[:width], row[width : 2 * width]
        moved, means = row[2 * width : 3 * width], row[len(row) - width :]  # used only where there are such
        for j in range(width):
            square = rho * squares[j] + rest * gradient[j] * gradient[j]
            squares[j] = square
            if centered != 0:
                mean = rho * means[j] + rest * gradient[j]
                means[j] = mean
                square -= mean * mean
            change = rate * gradient[j] / math.sqrt(square + epsilon)
            if momentum > 0:
                change += momentum * moved[j]
                moved[j] = change
            weights[j] -= change


@compiled
def ftrl(rows: Any, unique: Any, gradients: Any, arguments: Any) -> None:
    """Two slots: the sum of squares, and the linear term."""
    rate, power, l1, l2_twice, shrinkage_twice = arguments
    width = gradients.shape[1]
    for i in range(len(unique)):
        row = rows[unique[i]]
        gradient, weights, sums, linears = gradients[i], row[:width], row[width : 2 * width], row[2 * width :]
        for j in range(width):
            old = sums[j]
            new = old + gradient[j] * gradient[j]
            if power == 0.5:  # the usual one, and many times as fast
                root, old_root = math.sqrt(new), math.sqrt(old)
            else:
                root, old_root = new**power, old**power
            shrunk = gradient[j] + shrinkage_twice * weights[j]
            linear = linears[j] + shrunk - (root - old_root) / rate * weights[j]
            sums[j] = new
            linears[j] = linear
            clipped = min(max(linear, -l1), l1)
            weights[j] = (clipped - linear) / (root / rate + l2_twice)
