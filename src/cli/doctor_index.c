/* What doctor looks at where metadata_dir keeps the index: the kind of file system, the room for
 * the image and for the live array, and the namespace that is there. */
#include "base/text.h"
#include "catalog/image_header.h"
#include "cli/doctor.h"
#include "cli/filesystem_text.h"
#include "cli/namespace_find.h"
#include "metadata/directory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

struct index_place {
    const struct kvs_store_options *options;
    const char *dir; /* the nearest directory that is there */
    uint64_t num_pages;
    struct doctor_report *report;
};

/* ---- The file system ------------------------------------------------------------------------ */

static void examine_filesystem(const struct index_place *place)
{
    struct statfs about;
    const char *refused = statfs(place->dir, &about) == 0
                              ? directory_refused_filesystem((uint64_t)about.f_type & 0xffffffff)
                              : NULL;
    if (refused != NULL)
        doctor_say(place->report, DOCTOR_ERROR, "index",
                   "Choose a directory on a local disk for metadata_dir.",
                   "%s is on %s, where locks and syncs cannot be trusted.", place->dir, refused);
    int fd = open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    struct filesystem kind = filesystem_of(fd);
    close(fd);
    if (kind.in_memory)
        doctor_say(place->report, DOCTOR_WARNING, "index",
                   "Choose a directory on a local disk for metadata_dir.", "%s is on %s (%s).",
                   place->dir, kind.name, filesystem_catalog_visibility(&kind));
}

/* ---- Room ----------------------------------------------------------------------------------- */

/* What the image has of the file system already. */
static uint64_t image_held_bytes(const struct index_place *place)
{
    char name[IMAGE_NAME_BYTES];
    struct buffer ns = {0}, path = {0};
    struct stat about;
    uint64_t held = 0;
    uint32_t rank = namespace_meant(place->options, &ns);
    if (!ns.failed && image_file_name(rank, buffer_text(&ns), name)) {
        buffer_append_format(&path, "%s/%s", place->options->metadata_dir, name);
        if (!path.failed && stat(buffer_text(&path), &about) == 0)
            held = (uint64_t)about.st_blocks * 512;
    }
    buffer_done(&ns);
    buffer_done(&path);
    return held;
}

/* An image is allocated whole when it is made. */
static void examine_room(const struct index_place *place)
{
    struct statvfs space;
    uint64_t need = image_base_bytes(place->num_pages > 0 ? place->num_pages : 1);
    uint64_t held = image_held_bytes(place);
    if (statvfs(place->dir, &space) != 0)
        return;
    uint64_t room = (uint64_t)space.f_bavail * space.f_frsize;
    if (held < need && room < need - held)
        doctor_say(place->report, DOCTOR_ERROR, "index",
                   "Make room, or choose another metadata_dir.",
                   "%s has %s free, and the catalog of this rank takes %s%s there: it cannot be "
                   "created.",
                   place->dir, BYTES(room), place->num_pages > 0 ? "" : "at least ", BYTES(need));
    else if (place->num_pages > 0)
        doctor_say(place->report, DOCTOR_OK, "index", NULL,
                   "%s has %s free, the catalog of this rank takes %s there.", place->dir,
                   BYTES(room), BYTES(need));
}

static void examine_shm(const struct index_place *place)
{
    struct statvfs shm;
    uint64_t need = place->num_pages * sizeof(struct slot);
    if (place->num_pages == 0 || statvfs("/dev/shm", &shm) != 0)
        return;
    uint64_t room = (uint64_t)shm.f_bavail * shm.f_frsize;
    if (room < need)
        doctor_say(
            place->report, DOCTOR_WARNING, "/dev/shm",
            "Give the container more (docker run --shm-size); kvshelf stat /dev/shm shows what "
            "kvshelf has there.",
            "/dev/shm has room for %s, the live array of this rank takes %s: the image is used "
            "instead, which is slower.",
            BYTES(room), BYTES(need));
    else
        doctor_say(place->report, DOCTOR_OK, "/dev/shm", NULL, "The live array takes %s of %s.",
                   BYTES(need), BYTES(room));
}

/* ---- What is there -------------------------------------------------------------------------- */

/* What an engine would find in the directory. */
static void examine_kept(const struct index_place *place)
{
    const struct kvs_store_options *options = place->options;
    enum namespace_presence presence = NAMESPACE_ABSENT;
    struct kvs_error error;
    struct buffer ns = {0};
    uint32_t rank = namespace_meant(options, &ns);
    if (namespace_find(options, place->num_pages, &presence, &error) != KVS_OK)
        doctor_say_refused(place->report, "index", options, &error);
    else if (presence == NAMESPACE_THERE)
        doctor_say(place->report, DOCTOR_OK, "index", NULL,
                   "'%s' of rank %" PRIu32 " is kept there%s.", buffer_text(&ns), rank,
                   place->num_pages == 0 ? "" : ", with as many pages and of this size");
    place->report->failed = place->report->failed || ns.failed;
    buffer_done(&ns);
}

void doctor_examine_index(const struct kvs_store_options *options, const char *dir,
                          uint64_t num_pages, struct doctor_report *report)
{
    const struct index_place place = {options, dir, num_pages, report};
    examine_filesystem(&place);
    examine_room(&place);
    examine_kept(&place);
    examine_shm(&place);
}
