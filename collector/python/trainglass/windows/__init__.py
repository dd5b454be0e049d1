"""Windows of torch.profiler: when one is open, what it leaves, what it tells.

    schedule --> recorder --> export --> analysis --> report
    (which        (torch)     (files)    (numbers)    (console)
     batches)

Nothing here knows Lightning, and importing it imports no torch.
"""
