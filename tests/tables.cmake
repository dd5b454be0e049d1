# Ingest, tables, queries, findings.
unit_test(histogram LIBS aggregate)
unit_test(nest LIBS aggregate)
unit_test(gpu LIBS aggregate)
unit_test(trace_file LIBS trace_file query m)
unit_test(digests LIBS aggregate)
unit_test(texts LIBS aggregate)
unit_test(timeline LIBS ingest)
unit_test(window LIBS query)
unit_test(tables LIBS query)
unit_test(collector LIBS ingest query m)
unit_test(findings LIBS findings)
unit_test(owners LIBS findings m)
unit_test(what_if LIBS query m)
unit_test(rules LIBS findings m)
unit_test(rhythm LIBS query m)
unit_test(history LIBS findings m)
unit_test(numbers LIBS query m)

# bench_memory.py has the server read it.
add_executable(hour bench/hour.c)
target_link_libraries(hour PRIVATE wire project_warnings)

# bench.sh runs it.
add_executable(bench_fold bench/bench_fold.c)
target_link_libraries(bench_fold PRIVATE ingest project_warnings)
add_executable(bench_findings bench/bench_findings.c)
target_link_libraries(bench_findings PRIVATE findings project_warnings m)
