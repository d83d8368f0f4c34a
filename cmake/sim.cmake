# The simulation (docs/simulation.md): tests/sim/*.c over the product's own objects, with what these ask
# of the C library, the kernel and the catalog replaced at link time.
set(KVSHELF_SIM_REPLACED
  malloc calloc realloc aligned_alloc free strdup strndup realpath
  mmap munmap open openat __open_2 __openat_2 close fdopendir
  clock_gettime nanosleep getrandom
  pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait pthread_cond_timedwait pthread_cond_signal
  pthread_cond_broadcast pthread_create pthread_join pthread_setname_np
  catalog_open catalog_close catalog_reserve catalog_confirm catalog_release catalog_get
  catalog_exists catalog_delete catalog_clear catalog_report_mismatch catalog_copy_changed
  catalog_counts catalog_is_quiet   image_begin image_commit entry_drop entry_stop)
list(TRANSFORM KVSHELF_SIM_REPLACED PREPEND "-Wl,--wrap=")

file(GLOB KVSHELF_SIM_SOURCES CONFIGURE_DEPENDS tests/sim/*.c)
add_executable(sim ${KVSHELF_SIM_SOURCES})
target_include_directories(sim PRIVATE ${CMAKE_SOURCE_DIR}/tests/sim ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(sim PRIVATE kvshelf_test_support kvshelf_server_objects kvshelf_objects m)
target_link_options(sim PRIVATE ${KVSHELF_SIM_REPLACED})

# Some hundred seeds, and those that have found a fault before.
add_test(NAME sim/seeds COMMAND sim --seeds 400 --jobs 2)
add_test(NAME sim/regressions COMMAND sim --file ${CMAKE_SOURCE_DIR}/tests/sim/regressions)
set_tests_properties(sim/seeds sim/regressions PROPERTIES SKIP_RETURN_CODE 77)
