from django.apps import AppConfig

from codservice.retention import SWEEPS


class UploadsConfig(AppConfig):
    name = "codservice.uploads"

    def ready(self) -> None:
        from codservice.files.account_export import TABLES, ExportedTable
        from codservice.uploads import retention
        from codservice.uploads.models import RefusedRow, Upload

        SWEEPS["uploads"] = retention.forget_uploads
        TABLES["uploads"] = ExportedTable(Upload, ("kind", "created_at", "id"))
        TABLES["refused_rows"] = ExportedTable(RefusedRow, ("line",), link="upload", below="uploads", most=8)
