/* See stat_live.h. Nothing is removed here: an image that is not where it was may be on a disk that
 * is not mounted now, and then its live array is what a kill has left. A person knows. */
#include "cli/stat_live.h"

#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "catalog/image.h"
#include "catalog/live.h"
#include "cli/cli.h"
#include "cli/lock_holder.h"
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum live_state { LIVE_IN_USE, LIVE_LEFT, LIVE_UNKNOWN, LIVE_STRAY };
static const char *const states[] = {
    [LIVE_IN_USE] = "in_use",   /* by a process */
    [LIVE_LEFT] = "left",       /* by a process that was killed; its image is there */
    [LIVE_UNKNOWN] = "unknown", /* its image cannot be looked at */
    [LIVE_STRAY] = "stray",     /* its image is not there any more */
};

struct live_row {
    struct live_file file;
    enum live_state state;
    uint64_t in_use_by;
};

struct live_rows {
    struct live_row *rows;
    size_t n;
    bool failed;
};

/* ---- Finding ---------------------------------------------------------------------------------*/

static bool is_gone(int failure)
{
    return failure == ENOENT || failure == ENOTDIR;
}

/* The image where its process had it. A relative path says nothing: it was relative to elsewhere.
 */
static enum live_state state_of_image(const struct live_file *file)
{
    char dir_path[LIVE_PATH_BYTES];
    memcpy(dir_path, file->image, sizeof(dir_path));
    char *slash = strrchr(dir_path, '/');
    if (dir_path[0] != '/')
        return LIVE_UNKNOWN;
    const char *name = file->image + (slash - dir_path) + 1;
    slash[slash == dir_path] = '\0';
    int fd = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return is_gone(errno) ? LIVE_STRAY : LIVE_UNKNOWN;
    const struct image_dir dir = {.path = dir_path, .fd = fd, .os = &image_os_linux};
    struct image_header header;
    enum live_state state = LIVE_UNKNOWN;
    if (faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        state = is_gone(errno) ? LIVE_STRAY : LIVE_UNKNOWN;
    else if (image_check(&dir, name, &header, NULL) == KVS_OK)
        state = memcmp(header.id, file->id, sizeof(header.id)) == 0 ? LIVE_LEFT : LIVE_STRAY;
    close(fd);
    return state;
}

static void add_row(void *arg, const struct live_file *file)
{
    struct live_rows *rows = arg;
    struct live_row *grown = realloc(rows->rows, (rows->n + 1) * sizeof(*grown));
    if (grown == NULL) {
        rows->failed = true;
        return;
    }
    uint64_t in_use_by = lock_holder(file->device, file->inode);
    rows->rows = grown;
    rows->rows[rows->n++] = (struct live_row){
        .file = *file,
        .state = in_use_by != 0 ? LIVE_IN_USE : state_of_image(file),
        .in_use_by = in_use_by,
    };
}

static int compare_rows(const void *a, const void *b)
{
    const struct live_row *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    int order = strcmp(x->file.image, y->file.image);
    return order != 0 ? order : strcmp(x->file.path, y->file.path);
}

static void note(void *arg, const struct live_file *file)
{
    (void)file;
    *(bool *)arg = true;
}

bool stat_live_is_meant(const char *path)
{
    char *real = realpath(path, NULL);
    bool meant = real != NULL && strcmp(real, image_os_linux.shm_dir) == 0;
    free(real);
    if (!meant)
        live_list(path, note, &meant);
    return meant;
}

/* ---- Printing --------------------------------------------------------------------------------*/

static void print_rows(struct live_rows *rows)
{
    size_t strays = 0;
    uint64_t bytes = 0, stray_bytes = 0;
    for (size_t i = 0; i < rows->n; i++) {
        bool stray = rows->rows[i].state == LIVE_STRAY;
        bytes += rows->rows[i].file.bytes;
        strays += stray;
        stray_bytes += stray ? rows->rows[i].file.bytes : 0;
    }
    printf("%zu live array%s, %s of memory\n", rows->n, rows->n == 1 ? "" : "s", BYTES(bytes));
    for (size_t i = 0; i < rows->n; i++) {
        struct live_row *row = &rows->rows[i];
        text_one_line(row->file.image);
        printf("%-8s %10s  %s of %s", states[row->state], BYTES(row->file.bytes), row->file.path,
               row->file.image);
        if (row->state == LIVE_IN_USE)
            printf(", process %llu", (unsigned long long)row->in_use_by);
        putchar('\n');
    }
    if (strays > 0)
        printf(
            "\nstray: %zu with %s. The image of such a file is not there any more. If that was "
            "removed for good,\nremove the file (rm), else leave it: where a directory was moved "
            "or its disk is not mounted now,\nit is what a killed process has confirmed.\n",
            strays, BYTES(stray_bytes));
}

static void write_row(struct json_writer *json, const struct live_row *row)
{
    json_write_object_begin(json);
    json_member_text(json, "file", row->file.path);
    json_member_text(json, "state", states[row->state]);
    json_member_uint64(json, "bytes", row->file.bytes);
    json_member_text(json, "image", row->file.image);
    json_write_name(json, "in_use_by");
    if (row->in_use_by != 0)
        json_write_uint64(json, row->in_use_by);
    else
        json_write_null(json);
    json_write_object_end(json);
}

static enum kvs_status print_json(const struct live_rows *rows, struct kvs_error *error)
{
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_write_object_begin(&json);
    json_write_name(&json, "live_arrays");
    json_write_array_begin(&json);
    for (size_t i = 0; i < rows->n; i++)
        write_row(&json, &rows->rows[i]);
    json_write_array_end(&json);
    json_write_object_end(&json);
    enum kvs_status status = output_buffer(stdout, &out, error);
    buffer_done(&out);
    return status;
}

int stat_live(const struct cli *cli, const char *path)
{
    struct live_rows rows = {0};
    struct kvs_error error;
    enum kvs_status status = KVS_OK;
    int failure = live_list(path, add_row, &rows);
    if (failure != 0)
        status = error_set(&error, KVS_ERR_CATALOG_DIR, path, strerror(failure));
    else if (rows.failed)
        status = error_set(&error, KVS_ERR_NO_MEMORY, "listing live arrays");
    if (status == KVS_OK && rows.n > 0)
        qsort(rows.rows, rows.n, sizeof(*rows.rows), compare_rows);
    if (status == KVS_OK && cli_json(cli)) {
        status = print_json(&rows, &error);
    } else if (status == KVS_OK) {
        print_rows(&rows);
        status = output_flush(stdout, &error);
    }
    free(rows.rows);
    return status == KVS_OK ? CLI_OK : cli_fail(cli, &error);
}
