"""Watched functions: how long each call of a user's function takes, in every process.

    functions   a name to a function, and the wrapper that times it
    loaders     the same inside DataLoader workers: fork, spawn, forkserver
    stage       what a loader's workers work for, told to them while they run
    tally       what the processes counted, in files that the trainer sums

The rule: the watched function gets what it would have got, returns what it would have
returned and raises what it would have raised.
"""
